"""A CPU's instructions in place of loops that compute the same."""
