"""Dialects of servers: the requests of each protocol, and the rows of its answers."""
