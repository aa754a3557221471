"""The tuning log: its file, its lines, and which records and plans a build takes from it."""
