"""Loop nests, read and rewritten."""
