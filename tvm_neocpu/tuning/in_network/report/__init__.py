"""What a session shows while it runs, and what it leaves behind."""
