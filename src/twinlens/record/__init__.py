"""What happened: rows, telemetry, the executor as observed, and the run folder that holds them."""
