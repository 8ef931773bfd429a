"""Models: a choice among some, as constraints that filter and the Pareto set of what is left."""
