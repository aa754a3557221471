"""Convolution by AMX: tiles of pixels times tiles of filters, of integers and of bf16."""
