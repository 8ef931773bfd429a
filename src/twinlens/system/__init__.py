"""What Twinlens needs of the operating system: signals, threads of numpy, and where the home folder is."""
