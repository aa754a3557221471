"""Rounds of stand-ins: what is known of each candidate, what is timed next, and its times."""
