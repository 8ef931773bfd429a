"""Words of a plan read into values, each wrong one refused in one sentence."""
