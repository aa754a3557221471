"""One run of a network: its inputs, its outputs, and the functions that compute it."""
