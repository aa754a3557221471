"""Where the time of a run goes: every operation timed inside the network, beside its ceilings."""
