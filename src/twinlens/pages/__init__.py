"""What every printed number, label and error means; read by `twinlens explain`."""
