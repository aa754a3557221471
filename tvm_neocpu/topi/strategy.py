"""Which implementations can compute an operator: Relay's ``OpStrategy`` idea as an explicit table.

Every implementation brings the functions that :class:`Implementation` names. The built-in ones are
listed at the end of this file; anybody adds one more from outside:

    from tvm_neocpu.topi.strategy import Implementation, register_implementation
    register_implementation("conv2d", Implementation(name="my_conv2d", config_type=MyConfig, ...))

A configuration type is a frozen dataclass with a ``template`` class variable equal to the
implementation's name, and the ``ic_bn`` and ``oc_bn`` that it wants of its data (0 is plain NCHW).
An implementation may be limited to instruction sets by ``isas``. Among those whose guard accepts a
workload, the tuner or the cost model chooses; so ``register_implementation`` knows no priority.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.config import (
    CONFIG_TYPES,
    Config,
    ConvConfig,
    DenseConfig,
    DepthwiseConfig,
    Im2colConfig,
    TransformConfig,
    WinogradConfig,
)
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.workload import ConvWorkload, DenseWorkload, TransformWorkload, Workload
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d_depthwise import space as depthwise_conv2d_nchwc_space
from tvm_neocpu.topi.conv2d_depthwise import template as depthwise_conv2d_nchwc
from tvm_neocpu.topi.conv2d_direct import space as conv2d_nchwc_space
from tvm_neocpu.topi.conv2d_direct import template as conv2d_nchwc
from tvm_neocpu.topi.conv2d_im2col import space as conv2d_im2col_nchwc_space
from tvm_neocpu.topi.conv2d_im2col import template as conv2d_im2col_nchwc
from tvm_neocpu.topi.conv2d_winograd import space as conv2d_winograd_nchwc_space
from tvm_neocpu.topi.conv2d_winograd import template as conv2d_winograd_nchwc
from tvm_neocpu.topi.dense import space as dense_pack_space
from tvm_neocpu.topi.dense import template as dense_pack
from tvm_neocpu.topi.layout_transform import template as layout_transform


@dataclass(frozen=True)
class Implementation:
    """One way to compute an operator.

    ``guard(workload, cpu)`` says whether it applies; ``space(workload, cpu)`` lists its configs;
    ``compute(data, weight, workload, config)`` builds the TE stages over packed tensors;
    ``schedule(sch, anchor)`` schedules them together with a fused epilogue and returns the block
    that writes the output; ``pack_weight(weight, workload, config)`` prepares the constant at
    compile time to ``packed_shape(workload, config)``; ``cost(workload, config, cpu)`` predicts
    seconds on ``cpu.cores`` threads. An operator without a weight has ``None`` for both, and
    ``compute(data, workload, config)``. ``takes_prologue``: its schedule finds a place for data
    that are computed, not stored (:mod:`tvm_neocpu.topi.schedule.prologue`).
    """

    name: str
    config_type: type[Any]
    guard: Callable[[Any, Cpu], bool]
    space: Callable[[Any, Cpu], tuple[Any, ...]]
    compute: Callable[..., te.Tensor]
    schedule: Callable[[Schedule, Anchor], SBlockRV]
    pack_weight: Callable[[np.ndarray, Any, Any], np.ndarray] | None
    packed_shape: Callable[[Any, Any], tuple[int, ...]] | None
    cost: Callable[[Any, Any, Cpu], float]
    isas: tuple[str, ...] = ()
    takes_prologue: bool = False

    def accepts(self, workload: Workload, cpu: Cpu) -> bool:
        return (not self.isas or cpu.isa.name in self.isas) and self.guard(workload, cpu)


_OPERATOR_OF: dict[type, str] = {
    ConvWorkload: "conv2d",
    DenseWorkload: "dense",
    TransformWorkload: "layout_transform",
}
_TABLE: dict[str, list[Implementation]] = {name: [] for name in _OPERATOR_OF.values()}


def register_implementation(operator: str, implementation: Implementation) -> None:
    """Add one more way to compute ``operator`` (``"conv2d"``, ``"dense"``...).

    Raises ConfigError for an unknown operator, or a name that is taken or is not the template
    name of its configuration type.
    """
    if operator not in _TABLE:
        raise ConfigError(f"unknown operator {operator!r}; known are {', '.join(_TABLE)}")
    if implementation.name in _by_name():
        raise ConfigError(f"an implementation named {implementation.name!r} exists already")
    if getattr(implementation.config_type, "template", None) != implementation.name:
        raise ConfigError(
            f"{implementation.config_type.__name__}.template must be {implementation.name!r}"
        )
    CONFIG_TYPES[implementation.name] = implementation.config_type
    _TABLE[operator].append(implementation)


def unregister_implementation(name: str) -> None:
    """Take an implementation out of the table again; unknown names are ignored."""
    for entries in _TABLE.values():
        entries[:] = [entry for entry in entries if entry.name != name]


def implementations(workload: Workload, cpu: Cpu) -> tuple[Implementation, ...]:
    """Those that accept the workload on this CPU, in order of registration; maybe none."""
    entries = _TABLE[_OPERATOR_OF[type(workload)]]
    return tuple(entry for entry in entries if entry.accepts(workload, cpu))


def implementation_of(config: Config) -> Implementation:
    """The implementation that a config belongs to; raises ConfigError if it is not registered."""
    found = _by_name().get(config.template)
    if found is None:
        raise ConfigError(f"no implementation named {config.template!r} is registered")
    return found


def space_of(workload: Workload, cpu: Cpu) -> tuple[Config, ...]:
    """Every config of every implementation that accepts the workload."""
    return tuple(
        config for entry in implementations(workload, cpu) for config in entry.space(workload, cpu)
    )


def _by_name() -> dict[str, Implementation]:
    return {entry.name: entry for entries in _TABLE.values() for entry in entries}


def _built_in(
    config_type: type[Any], template: ModuleType, space: ModuleType, takes_prologue: bool = False
) -> Implementation:
    """Of modules whose functions are named as here; a template may have its space beside it."""
    return Implementation(
        name=config_type.template,
        config_type=config_type,
        guard=space.accepts,
        space=space.space,
        compute=template.compute,
        schedule=template.schedule,
        pack_weight=getattr(template, "pack_weight", None),
        packed_shape=getattr(template, "packed_shape", None),
        cost=space.predict_seconds,
        takes_prologue=takes_prologue,
    )


# fmt: off
for _operator, _implementation in (
    ("conv2d", _built_in(ConvConfig, conv2d_nchwc, conv2d_nchwc_space, takes_prologue=True)),
    ("conv2d", _built_in(
        DepthwiseConfig, depthwise_conv2d_nchwc, depthwise_conv2d_nchwc_space, takes_prologue=True
    )),
    ("conv2d", _built_in(
        WinogradConfig, conv2d_winograd_nchwc, conv2d_winograd_nchwc_space, takes_prologue=True
    )),
    ("conv2d", _built_in(Im2colConfig, conv2d_im2col_nchwc, conv2d_im2col_nchwc_space)),
    ("dense", _built_in(DenseConfig, dense_pack, dense_pack_space)),
    ("layout_transform", _built_in(TransformConfig, layout_transform, layout_transform)),
):
    register_implementation(_operator, _implementation)
# fmt: on
