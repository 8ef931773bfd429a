"""When each request is due and what it holds: pure and seeded, no clock of its own."""
