"""Measuring from the page: a form that is checked as one types, and jobs that outlive the browser and the site."""
