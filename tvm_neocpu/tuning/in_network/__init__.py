"""Candidates timed in their network: stand-ins, kernels compiled once, calls timed in place."""
