"""Check before money or hours go: parts that work together, power, links, errors, deadlines, users at a speed."""
