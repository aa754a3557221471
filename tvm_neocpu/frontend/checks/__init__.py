"""What a model must be before it is imported; each refusal is one line."""
