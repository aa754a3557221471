"""Operators over tensors with extents that only a run knows.

An extent is named once. Two extents are known to be equal, or a run checks it.
"""
