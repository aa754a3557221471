"""What of TVM a run needs, imported when it is needed, and no more."""
