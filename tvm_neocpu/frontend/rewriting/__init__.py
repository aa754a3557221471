"""Nodes written as other nodes that compute the same."""
