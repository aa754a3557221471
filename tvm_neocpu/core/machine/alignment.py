"""How data of tensors is aligned; every session asks, so that nothing else is in here."""

# Generated code loads whole vectors from tensors: bytes.
ALIGNMENT = 64
