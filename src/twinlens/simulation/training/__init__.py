"""Training in virtual time: ranks, pipelines, exchanges, saves and failures, and training beside serving."""
