"""Models and data as tensors: built, quantised, fed to the loop."""
