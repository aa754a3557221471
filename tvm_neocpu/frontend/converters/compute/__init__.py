"""Loops for what Relax has no operator for, as tensor expressions."""
