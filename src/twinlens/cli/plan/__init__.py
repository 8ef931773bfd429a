"""The command line of planning: one file for each verb of `twinlens plan`."""
