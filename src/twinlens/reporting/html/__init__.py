"""One self-contained HTML file, from Jinja2 templates."""
