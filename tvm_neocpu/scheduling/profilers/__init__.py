"""What a group of operations costs when it runs fused, by documented formulas."""
