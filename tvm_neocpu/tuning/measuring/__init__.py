"""Measuring candidates: the interface, this machine's measurer, its worker processes."""
