"""The operating system: signals, threads of numpy, the home folder."""
