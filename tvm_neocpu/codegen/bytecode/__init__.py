"""Relax's bytecode as TVM 0.27 stores it: read, and rewritten: weights as arguments, jumps."""
