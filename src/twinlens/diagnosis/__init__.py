"""Diagnosis: what binds a step or a request, decided against the ceilings that the run itself measured."""
