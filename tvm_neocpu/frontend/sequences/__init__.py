"""Sequences, written as tensors."""
