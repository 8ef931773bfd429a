"""Pages in a browser: a third renderer of documents and a way to ask, served to this machine alone."""
