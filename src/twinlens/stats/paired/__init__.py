"""Points measured together: ratios from turns, differences on the same arrivals, and the choice among policies."""
