"""Software prefetch: what is asked of memory, and when."""
