"""Points: loads played in virtual time, their figures with bands, and the run folders that keep their rows."""
