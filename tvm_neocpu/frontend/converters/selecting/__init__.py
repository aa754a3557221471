"""Operators that pick elements by their places or their values."""
