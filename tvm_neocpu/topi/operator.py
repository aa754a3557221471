"""The two records that the whole package knows operators by.

An :class:`Operator` says what is computed: its workload type, its log lines, a NumPy reference. An
:class:`Implementation` is one way to compute it: a space, a template and a cost. How an operator
looks in a Relax module is the third record, ``relay_passes.operators.call_form.CallForm``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import is_widened
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import FP32, Types
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.classic_knobs import ClassicKnob


@dataclass(frozen=True)
class Operator:
    """What an operator is, for everything that does not look at the graph.

    ``decode(template, args, extras)`` is the inverse of the workload's ``args()`` and ``extras()``:
    it reads the argument list of a log line; it raises LineError for one that is not its own.
    ``reference(workload, *operands)`` computes the result with NumPy from operands of their logical
    shapes, for tests. ``parse(text)`` reads a workload from the text that it prints as, ``None``
    for any other text; ``example`` is such a text.
    """

    name: str
    workload_type: type[Workload]
    decode: Callable[[str, list[Any], Mapping[str, Any]], Any]
    reference: Callable[..., np.ndarray]
    parse: Callable[[str], Workload | None] | None = None
    example: str = ""


@dataclass(frozen=True)
class Blocks:
    """Blocks of channels: of the feature maps that configs read, and of those that they write."""

    read: frozenset[int]
    written: frozenset[int]


class Price(Protocol):
    """Predicts the seconds of configs of one workload.

    Where they are above ``limit`` any larger number will do, if it takes less time to find.
    """

    def __call__(self, config: Any, limit: float = inf, /) -> float: ...


@dataclass(frozen=True)
class Implementation:
    """One way to compute an operator.

    ``name`` is ``config_type.template``. ``guard(workload, cpu)`` says whether it applies;
    ``space(workload, cpu)`` lists its configs; ``cost(workload, config, cpu)`` predicts seconds on
    ``cpu.cores`` threads; ``pricing(workload, cpu)`` gives a function that predicts the same for
    many configs in less time. ``blocks(workload, cpu)`` are those of its space if that is large and
    has all pairs of them; ``part_of_space(workload, cpu, blocks)`` then lists the configs that have
    some of them. ``misfit(workload, config)`` says why a config from a log cannot compute
    the workload, ``None`` where it can. ``forbids(workload, config)`` says why the environment
    does not allow a config that could: logs are read once, the environment may change later.

    ``compute(*operands, workload, config)`` builds the TE stages over the operands as they are
    stored, and :func:`..anchor.anchor_attrs` marks its main block. ``schedule(sch, anchor, cpu)``
    schedules them together with a fused epilogue and returns the block that writes the output.
    ``pack_weight(weight, workload, config)`` prepares the constant at compile time to
    ``packed_shape(workload, config)``; both are ``None`` for an operator without a weight.
    ``packed_types`` are the element types that packing changes: int8 weights become 32-bit words.

    ``types`` are the element types that its code is right for, ``isas`` the instruction sets that
    it is limited to (empty: none). ``rounds_data``: it rounds fp32 data to the type of its weights
    before it multiplies. ``noise_growth(workload)``: the noise power at its outputs over that of
    weights that are only rounded, at most. ``weight_scales(workload)``: the smallest and the
    largest of what it stores over the weights. ``takes_prologue``: its schedule finds a place for
    data that are computed, not stored (:mod:`.schedule.prologue`). ``copies_apart(workload,
    config)``: that place is a pass of its own, which data that are stored do not need. ``classic``
    are the knobs under which AutoTVM's logs know its config; ``upgrade(knobs)`` turns the knobs of
    older logs into today's. ``settings()`` is what the environment says of its space.
    ``label(workload, config)`` is what people call it.
    """

    name: str
    config_type: type[Any]
    guard: Callable[[Any, Cpu], bool]
    space: Callable[[Any, Cpu], tuple[Any, ...]]
    compute: Callable[..., te.Tensor]
    schedule: Callable[[Schedule, Anchor, Cpu], SBlockRV]
    pack_weight: Callable[[np.ndarray, Any, Any], np.ndarray] | None
    packed_shape: Callable[[Any, Any], tuple[int, ...]] | None
    cost: Callable[[Any, Any, Cpu], float]
    pricing: Callable[[Any, Cpu], Price] | None = None
    blocks: Callable[[Any, Cpu], Blocks] | None = None
    part_of_space: Callable[[Any, Cpu, Blocks], tuple[Any, ...]] | None = None
    misfit: Callable[[Any, Any], str | None] = lambda workload, config: None
    forbids: Callable[[Any, Any], str | None] = lambda workload, config: None
    types: tuple[Types, ...] = (FP32,)
    packed_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    isas: tuple[str, ...] = ()
    rounds_data: bool = False
    noise_growth: Callable[[Any], float] = lambda workload: 1.0
    weight_scales: Callable[[Any], tuple[float, float]] = lambda workload: (1.0, 1.0)
    takes_prologue: bool = False
    copies_apart: Callable[[Any, Any], bool] = lambda workload, config: False
    classic: tuple[ClassicKnob, ...] = ()
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] = lambda knobs: knobs
    settings: Callable[[], Hashable] = lambda: None
    label: Callable[[Any, Any], str] | None = None

    def packed_type(self, dtype: str) -> str:
        """The element type of a packed weight of that type."""
        return self.packed_types.get(dtype, dtype)

    def accepts(self, workload: Workload, cpu: Cpu) -> bool:
        """Whether it can compute the workload at all on this CPU."""
        if self.isas and cpu.isa.name not in self.isas:
            return False
        is_read = workload.types in self.types and is_widened(workload.types.weight, cpu.halves)
        return is_read and self.guard(workload, cpu)

    def price(self, workload: Workload, cpu: Cpu) -> Price:
        """What predicts the seconds of configs of one workload."""
        if self.pricing is not None:
            return self.pricing(workload, cpu)
        return lambda config, limit=inf: self.cost(workload, config, cpu)

    def refusal(self, workload: Workload, config: Config, cpu: Cpu) -> str | None:
        """Why a config that did not come from :attr:`space` may not be used, ``None`` if it may."""
        reason = self.misfit(workload, config) or self.forbids(workload, config)
        if reason is None and not self.accepts(workload, cpu):
            return f"{self.name} does not compute such a workload on {cpu.name}"
        return reason

    def fits(self, workload: Workload, config: Config, cpu: Cpu) -> bool:
        """Whether a config that did not come from :attr:`space` may be used."""
        return self.refusal(workload, config, cpu) is None

    def describe(self, workload: Workload, config: Config) -> str:
        """What people call it: ``"direct"``, ``"winograd F(4x4)"``."""
        return self.name if self.label is None else self.label(workload, config)
