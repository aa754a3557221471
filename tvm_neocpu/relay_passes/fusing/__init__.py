"""Which operators become one kernel."""
