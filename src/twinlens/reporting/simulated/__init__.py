"""Documents of what happened in virtual time: points with their bands, policies of batching, twins of measured runs."""
