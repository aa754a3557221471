"""Code for ARM, executed by a CPU emulator: tests need no board."""
