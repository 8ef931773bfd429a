"""Training loops of somebody's own: moments of each step, taken by hooks or by callbacks, added up to rows."""
