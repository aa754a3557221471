"""Operators that move elements, or say how many there are."""
