"""Charts as static SVG."""
