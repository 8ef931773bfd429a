"""Verbs that measure: a study of runs, a loop of somebody's own, the demo, and what fails a pipeline."""
