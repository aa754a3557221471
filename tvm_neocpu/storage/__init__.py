"""What lies on the user's disk: the cache folder, locks between processes, a model's files."""
