"""Loops and branches that a run decides, as functions of the module."""
