"""The only place that prints, exits and reads argv."""
