"""The processes that build networks and time them in turns, and the proof that two of them give."""
