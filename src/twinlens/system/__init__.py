"""The operating system and its drivers: signals, threads of numpy, the home folder, GPUs through NVML."""
