"""What converters compute at compile time, in NumPy and without TVM."""
