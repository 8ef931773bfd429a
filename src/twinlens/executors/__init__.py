"""What runs it: one file per runtime, loaded only when named, through entry points."""
