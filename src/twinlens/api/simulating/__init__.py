"""The verb that simulates: words read into a law, rules and loads, and the answer in virtual time."""
