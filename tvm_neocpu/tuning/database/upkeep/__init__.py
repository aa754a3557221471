"""What people do with whole logs: merge them, prune them, take hints from AutoTVM's."""
