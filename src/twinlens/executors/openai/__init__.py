"""A server that speaks the OpenAI API, asked over HTTP."""
