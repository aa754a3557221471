"""Convolution to few channels: vectors of input channels are summed, and folded in the end."""
