"""Reporting: findings become sentences, summaries become tables, charts and pages."""
