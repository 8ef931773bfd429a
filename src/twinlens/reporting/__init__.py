"""Text, JSON and one self-contained HTML file."""
