"""The CPU: its cores and caches, its vectors, and the instructions that multiply narrow types."""
