"""Calls without a template over feature maps: pools, means, copies. Priced and logged, not made."""
