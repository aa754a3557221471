"""Between the network and the plan: the conv graph is read, layouts are set, transforms removed."""
