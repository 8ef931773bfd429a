"""Wall time of a training run: useful steps, each loss by its name, saves, and the recovery from a lost rank."""
