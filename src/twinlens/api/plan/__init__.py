"""The verbs of planning, one file for each; `tl.plan` offers them."""
