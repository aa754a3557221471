"""Shapes, and the tensors that shapes are made of, found before the import."""
