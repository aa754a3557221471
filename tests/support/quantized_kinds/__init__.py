"""Layers of random quantised networks, by family."""
