"""The verbs, one file for each: what each prints, loaded only when it is asked for."""
