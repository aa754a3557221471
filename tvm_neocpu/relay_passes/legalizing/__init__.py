"""Operators of Relax written as loops of our own."""
