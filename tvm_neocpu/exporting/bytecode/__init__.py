"""Relax's bytecode as TVM 0.27 stores it: read, and rewritten so that weights are arguments."""
