"""Templates: one operator a file, compute beside schedule, found through the strategy table."""
