"""Depthwise convolution of integers, two rows of an image in a word."""
