"""Products of matrices, and samples between the elements of an image."""
