"""One fact as one line of a log, and back: records, plans, verdicts."""
