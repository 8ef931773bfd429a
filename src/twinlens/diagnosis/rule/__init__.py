"""Rules of a diagnosis: one file for each, a pure function of the evidence that may give findings."""
