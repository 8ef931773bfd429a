"""Sources of a spec: a file, a shipped example, an earlier run, a server that is up; and settings."""
