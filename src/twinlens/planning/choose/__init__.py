"""Choice: every device, precision and layout evaluated as arrays; one ranking of inference and one of training."""
