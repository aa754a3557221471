"""Plans made of what the rounds found: timed whole, read again, then proven or dropped."""
