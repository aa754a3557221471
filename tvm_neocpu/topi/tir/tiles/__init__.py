"""Loops around and inside register tiles: which of them run, and how their rows end."""
