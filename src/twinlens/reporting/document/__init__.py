"""Answers as documents: a subject makes blocks, and a terminal, a page, Markdown and a notebook show any blocks."""
