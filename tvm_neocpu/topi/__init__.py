"""Templates: one operator a file, compute and schedule side by side, found through the strategy table."""
