"""Compiled files: how they are made of objects, what lies at their end, and how they are read."""
