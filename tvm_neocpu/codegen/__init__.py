"""Scheduled functions as machine code: kernels compiled in threads, linked with the network."""
