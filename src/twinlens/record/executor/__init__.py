"""The executor as observed: facts by field, each with its source."""
