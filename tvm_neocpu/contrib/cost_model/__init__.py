"""How good the cost model is against a log, and its constants fitted to one."""
