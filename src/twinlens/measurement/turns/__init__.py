"""Points of one repeat measured together, in slices that take turns."""
