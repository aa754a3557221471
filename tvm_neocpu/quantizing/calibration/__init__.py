"""Calibration: what flows through a network on typical inputs, and the ranges that follow."""
