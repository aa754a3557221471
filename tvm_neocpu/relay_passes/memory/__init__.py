"""Tensors that are allocated explicitly, and which of them may lie at an offset in an arena.

explicit.py     calls with allocations of their results; what a reshape becomes among these
at_offsets.py   what may lie at an offset: tensors of a network, parameters of functions
"""
