"""The server under test: shared among runs, scraped, paused."""
