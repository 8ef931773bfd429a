"""The first screen: what a run, or the points of a study, come to in 24 lines of 80 columns."""
