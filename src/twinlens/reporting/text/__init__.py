"""Tables and sentences for a terminal of 80 columns."""
