"""The embedded executor: training and inference on torch and transformers."""
