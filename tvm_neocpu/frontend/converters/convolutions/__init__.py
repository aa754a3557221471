"""Operators with a window: convolutions and pools."""
