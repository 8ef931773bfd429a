"""What was asked: frozen, strict values; no I/O but `spec.load`."""
