"""The command line: it parses, calls `api`, prints and exits."""
