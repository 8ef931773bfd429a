"""Findings in words: a sentence for each code, what to try, for terminal, HTML and JSON alike."""
