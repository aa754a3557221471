"""Which sweep of a conv graph a fused function without a template is, by the tensors it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm import tirx

from tvm_neocpu.core.network.conv_graph import ConvGraph, Shape4, Sweep, SweepKind, shape4
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.topi.sweep.workload import SweepWorkload

# Whether it is a pool, what it reads, what it writes; logical shapes.
Signature = tuple[bool, tuple[Shape4, ...], Shape4]


class SweepFinder:
    """Sweeps of a graph by what their functions look like.

    Two pools between tensors of the same shapes look alike, whatever their windows are: both are
    found as the first of them.
    """

    def __init__(self, graph: ConvGraph) -> None:
        self._sweeps: dict[Signature, Sweep] = {}
        for node in graph.nodes:
            for sweep in (*node.sweeps, *node.read_sweeps):
                is_pool = sweep.kind is SweepKind.POOL
                key = is_pool, _read(sweep.inputs, sweep.output), sweep.output
                self._sweeps.setdefault(key, sweep)

    def find(self, name: str, func: tirx.PrimFunc) -> SweepWorkload | None:
        """The sweep that a fused, unscheduled function computes; ``None`` for any other."""
        stored = [shape for p in func.params if (shape := _stored(p)) is not None]
        layouts = {_layout(shape) for shape in stored if len(shape) > 3}
        if len(layouts) > 1 or len(stored) < 2:
            return None
        layout = layouts.pop() if layouts else Layout(0)
        *inputs, output = (_logical(shape, layout) for shape in stored)
        found = self._sweeps.get(("pool" in name, _read(inputs, output), output))
        return None if found is None else SweepWorkload.of(found, layout)


def _read(inputs: Iterable[Shape4], output: Shape4) -> tuple[Shape4, ...]:
    """What is read of images: scales and biases of channels are left out."""
    images = [shape for shape in inputs if shape[2:] != (1, 1) or output[2:] == (1, 1)]
    return tuple(sorted(images))


def _stored(parameter: tirx.Var) -> tuple[int, ...] | None:
    """The shape of a buffer of whole extents; ``None`` for a scalar or another parameter."""
    shape = getattr(parameter.ty, "shape", ())
    if not shape or not all(isinstance(extent, tirx.IntImm | int) for extent in shape):
        return None
    return tuple(int(extent) for extent in shape)


def _layout(stored: Sequence[int]) -> Layout:
    return Layout(stored[4]) if len(stored) == 5 else Layout(0)


def _logical(stored: tuple[int, ...], layout: Layout) -> Shape4:
    if len(stored) == 5:
        return layout.logical_shape(stored)
    return shape4(stored)
