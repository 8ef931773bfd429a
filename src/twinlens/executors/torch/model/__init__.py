"""Models and data as torch tensors: built, quantised, fed."""
