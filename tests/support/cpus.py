"""CPUs with the caches that were measured, on whatever machine the tests run."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.targets import parse_target

# A target whose code runs here is described with this machine's caches.
ZEN_3 = replace(
    parse_target("llvm -mcpu=znver3 -num-cores=1").cpu, l1=32 << 10, l2=512 << 10, l3=32 << 20
)
ZEN_4 = replace(
    parse_target("llvm -mcpu=znver4 -num-cores=1").cpu, l1=32 << 10, l2=1 << 20, l3=32 << 20
)
