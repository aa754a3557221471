"""What is decided for a network: workloads, configs and layouts, and plans and records of them."""
