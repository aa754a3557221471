"""What Linux is asked before a process may use AMX, and the features of LLVM that need it."""

from __future__ import annotations

# Number of arch_prctl on x86-64, its request for registers, and those of tiles.
REQUEST = (158, 0x1023, 18)
FEATURES = frozenset(("amx-tile", "amx-int8", "amx-bf16"))
