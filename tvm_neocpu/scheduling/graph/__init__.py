"""The network that is scheduled: a frozen graph, and what lives when it runs in an order."""
