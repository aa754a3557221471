"""Operators over integers."""
