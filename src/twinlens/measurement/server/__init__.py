"""The server under test: shared among runs, scraped, checked for compliance."""
