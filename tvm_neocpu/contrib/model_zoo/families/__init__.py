"""One file a family of networks: its layers, and nothing else."""
