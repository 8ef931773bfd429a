"""Compliance tests: answers sampled under load, and repeated alone when the load is over."""
