"""Everything before code generation, for one network at several shapes or at any batch.

    plan      each network by itself: of an open batch the sizes that are worth it, of an extent
              that a run counts the layers over it
    lower     all of them into one module, weights shared, scheduled
    dispatch  a function for any batch, which calls those of the sizes

:mod:`.specialize` makes code of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import tvm
from tvm import relax, tirx

from tvm_neocpu.codegen.late_weights import packed_at_once
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import OnFallback
from tvm_neocpu.frontend.reading.onnx_model import example_shape, shape_text
from tvm_neocpu.pipeline import PlannedNetwork, compute, plan_network, schedule_module
from tvm_neocpu.relay_passes.batches.bind_shapes import open_inputs
from tvm_neocpu.relay_passes.batches.dispatch import add_dispatch, batch_name
from tvm_neocpu.relay_passes.batches.generalize import at_batch
from tvm_neocpu.relay_passes.batches.independence import why_dependent
from tvm_neocpu.relay_passes.batches.outline_rows import outline_rows
from tvm_neocpu.relay_passes.batches.row_runs import check_recurrences, has_open_rows
from tvm_neocpu.relay_passes.batches.row_sizes import RowSizes, worthwhile_row_sizes
from tvm_neocpu.relay_passes.batches.sizes import MAX_BATCH, worthwhile_sizes
from tvm_neocpu.relay_passes.folding.canonicalize import Canonicalize
from tvm_neocpu.relay_passes.folding.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.ir.describe import AT_SHAPES
from tvm_neocpu.relay_passes.ir.open_batch import open_batch
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.memory.outputs_from_caller import OutputsFromCaller
from tvm_neocpu.relay_passes.memory.separate_branches import SeparateBranches
from tvm_neocpu.relay_passes.merge_networks import merge_networks
from tvm_neocpu.runtime.files.module_info import OPEN
from tvm_neocpu.tuning.database.history import History, current_history

_LOG = logging.getLogger("tvm_neocpu")

# What the VM adds to the prediction for each operation, on AMD Zen 4: its call, a parallel loop.
CALL_SECONDS = 2.3e-6
# Weights that are packed in two ways are stored twice. How much longer a specialisation may take so
# that they are not: any batch is promised to run as fast as its own build, a listed shape is not.
BATCH_MAY_COST = 1.02
# Of rows there may be several sizes, and their weights may be most of the file.
ROWS_MAY_COST = 1.15
SHAPE_MAY_COST = 1.1


def lower_networks(
    networks: dict[str, tvm.IRModule],
    cpu: Cpu,
    history: History | None = None,
    fallback: OnFallback = "warn",
    max_batch: int = MAX_BATCH,
    ready: Callable[[tirx.PrimFunc], None] | None = None,
    in_place: bool = False,
) -> tvm.IRModule:
    """Everything before code generation: a function for each network, by name.

    Each is taken out of ``networks``. With ``in_place`` its weights may be overwritten: nobody else
    has them. ``ready`` is told of each kernel as soon as it is scheduled.

    The images of a network with an open batch are proved to be independent; where they are not, and
    in any other network, layers over an open extent become networks of open rows of their own.
    Raises what :func:`.pipeline.lower` raises.
    """
    lowering = _Lowering(cpu, history or current_history(cpu), fallback, in_place)
    for name in tuple(networks):
        lowering.add(name, networks.pop(name), max_batch)
    return lowering.lowered(ready)


class _Lowering:
    """The networks so far; ``_models`` are those that pack weights in ways of their own."""

    def __init__(self, cpu: Cpu, history: History, fallback: OnFallback, in_place: bool) -> None:
        self._cpu = cpu
        self._in_place = in_place
        self._history = history
        self._fallback: OnFallback = fallback
        self._models: list[PlannedNetwork] = []
        self._planned: dict[str, PlannedNetwork] = {}
        self._dispatched: dict[str, tuple[relax.Function, RowSizes]] = {}

    def add(self, name: str, mod: tvm.IRModule, max_batch: int) -> None:
        """Plan a network; one with an open batch for the batches that are worth it.

        Raises ShapeError for a module that stands for a network of open shapes.
        """
        if mod.attrs and AT_SHAPES in mod.attrs:
            raise ShapeError(_needs_shapes(mod))
        batch = open_batch(mod)
        if batch is None or not _is_independent(mod, batch):
            self._add_with_rows(name, mod)
            return
        tried = sorted({1, min(2, max_batch), max_batch})
        planned = {size: self._plan_batch(mod, batch, size) for size in tried}
        seconds = {size: _seconds(network) for size, network in planned.items()}
        sizes = worthwhile_sizes(seconds[1], seconds[max_batch], max_batch, seconds.get(2))
        for size in sizes:
            network = planned.get(size) or self._plan_batch(mod, batch, size)
            self._planned[batch_name(name, size)] = network
        self._dispatched[name] = (mod["main"], RowSizes(sizes, {}))

    def _add_with_rows(self, name: str, mod: tvm.IRModule) -> None:
        """Plan a network, and by themselves its layers over extents that a run counts."""
        check_recurrences(mod)
        rows: Mapping[str, tvm.IRModule] = {}
        if has_open_rows(mod):
            with PYTHON_LOCK:
                outlined = outline_rows(
                    run_passes(mod, FoldConstants(), Canonicalize()), f"{name}_rows"
                )
            mod, rows = outlined.mod, outlined.rows
        asked = self._fallback
        in_place = self._in_place and not rows  # which have the same weights
        self._planned[name] = self._plan(mod, SHAPE_MAY_COST, in_place)
        for each, network in rows.items():
            self._fallback = asked  # its operations are others
            self._add_rows(each, network)

    def _add_rows(self, name: str, mod: tvm.IRModule) -> None:
        rows = open_batch(mod)
        assert rows is not None
        planned: dict[int, PlannedNetwork] = {}

        def seconds(size: int) -> float:
            planned[size] = self._plan_batch(mod, rows, size, ROWS_MAY_COST)
            return _seconds(planned[size])

        sizes = worthwhile_row_sizes(seconds)
        for size in sizes.sizes:
            self._planned[batch_name(name, size)] = planned[size]
        self._dispatched[name] = (mod["main"], sizes)

    def lowered(self, ready: Callable[[tirx.PrimFunc], None] | None) -> tvm.IRModule:
        """One module, scheduled, whose networks of open batch have their dispatch.

        ``ready`` is told of each kernel of the networks as soon as it is scheduled.
        """
        groups = {
            members: bands
            for network in self._planned.values()
            for members, bands in network.groups.items()
        }
        dispatched = self._dispatched.items()
        batches = [
            batch_name(name, size) for name, (_, chosen) in dispatched for size in chosen.sizes
        ]
        merged = self._merged()
        module = schedule_module(merged, self._cpu, groups, at_offset=batches, ready=ready)
        module = run_passes(module, OutputsFromCaller(batches))
        for name, (symbolic, chosen) in dispatched:
            with PYTHON_LOCK:
                module = add_dispatch(
                    module, name, symbolic, chosen.sizes, self._prepared, chosen.padded_from
                )
        return module

    def _prepared(self, dispatch: tvm.IRModule) -> tvm.IRModule:
        """A dispatch's functions as scheduled ones are: its rows are copied by loops."""
        return run_passes(dispatch, ScheduleFunctions(self._cpu), SeparateBranches())

    def _merged(self) -> tvm.IRModule:
        """One module, not scheduled yet."""
        if list(self._planned) == ["main"]:
            return compute(self._planned["main"], self._cpu)
        with packed_at_once():
            items = self._planned.items()
            computed = {name: compute(network, self._cpu) for name, network in items}
        return merge_networks(computed)

    def _plan_batch(
        self, mod: tvm.IRModule, batch: tirx.Var, size: int, may_cost: float = BATCH_MAY_COST
    ) -> PlannedNetwork:
        with PYTHON_LOCK:
            closed = at_batch(mod, batch, size)
        return self._plan(closed, may_cost)

    def _plan(
        self, mod: tvm.IRModule, sharing_may_cost: float, in_place: bool = False
    ) -> PlannedNetwork:
        network = plan_network(
            mod,
            self._cpu,
            self._history,
            self._fallback,
            self._models,
            sharing_may_cost,
            in_place,
        )
        if not network.shares:
            self._models.append(network)
        # One warning is enough: the other shapes have the same operations.
        self._fallback = "error" if self._fallback == "error" else "ignore"
        return network


def _needs_shapes(mod: tvm.IRModule) -> str:
    """Which inputs are open, and how to give them shapes."""
    opened = {
        name: [None if dim == OPEN else dim for dim in shape]
        for name, shape, _ in open_inputs(mod)
        if OPEN in shape
    }
    named = " and ".join(f"{name!r} {shape_text(shape)}" for name, shape in opened.items())
    example = {name: example_shape(shape) for name, shape in opened.items()}
    options = " ".join(
        f"--shape {name}:{','.join(map(str, shape))}" for name, shape in example.items()
    )
    return (
        f"the network is another one for each shape of {named}: give shapes, for instance "
        f"Session(..., shapes={example}), relay.build(..., shapes=[{example}]) or {options}"
    )


def _is_independent(mod: tvm.IRModule, batch: tirx.Var) -> bool:
    """Whether the images of a batch are; where they are not, the log says why."""
    with PYTHON_LOCK:
        reason = why_dependent(mod, batch)
    if reason is not None:
        _LOG.warning("no code is specialised for batches of this network: %s", reason)
    return reason is None


def _seconds(network: PlannedNetwork) -> float:
    """The predicted time of a run."""
    return network.plan.seconds + network.beside + CALL_SECONDS * len(network.graph.nodes)
