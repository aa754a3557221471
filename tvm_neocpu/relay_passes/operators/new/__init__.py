"""Operators that Relax lacks: calls of our own, one a file, all made by ``new_op.py``."""
