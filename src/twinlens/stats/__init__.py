"""Pure statistics over rows."""
