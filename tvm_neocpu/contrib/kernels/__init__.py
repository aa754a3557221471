"""Kernels against the machine: every workload of a network as a share of the measured FMA peak."""
