"""The local search: a tuning session over tasks, its budget, its progress. It needs no TVM."""
