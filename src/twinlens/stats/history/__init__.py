"""Changes in a history: levels of a short series whose neighbours may resemble each other."""
