"""Runs beside each other: who runs on which cores, who waits, who is called when one has ended."""
