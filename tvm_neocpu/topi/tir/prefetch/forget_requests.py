"""Reductions without their marks for requests, where all that they read stays in the caches."""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import For, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body
from tvm_neocpu.topi.tir.prefetch.prefetch_pixels import PIXELS_KEY
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import NOTES, PREFETCH_KEY

_MARKS = frozenset((PIXELS_KEY, PREFETCH_KEY, *NOTES))


def forget_requests(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """Remove the marks on which :func:`.prefetch_weights.plant_prefetches` would act."""

    def unmarked(loop: For, body: Stmt, _: tuple[For, ...]) -> For:
        notes = {key: note for key, note in loop.annotations.items() if key not in _MARKS}
        return with_body(loop, body, notes)

    return rewrite_loops(func, unmarked)
