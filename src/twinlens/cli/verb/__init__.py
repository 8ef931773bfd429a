"""The verbs by what they answer: their options and a call, quick to load; `cli/VERB.py` runs each."""
