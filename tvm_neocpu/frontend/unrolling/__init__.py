"""Loops and branches that need not remain: their bodies, written into the graph."""
