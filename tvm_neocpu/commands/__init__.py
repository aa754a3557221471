"""The command lines behind the doors at the root: options in, calls into the rooms, results out."""
