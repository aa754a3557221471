"""The strategy table: what it refuses, and an implementation that somebody else brings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.config import CONFIG_TYPES, Config
from tvm_neocpu.core.cpu import NEON, Cpu
from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.layout import NCHW
from tvm_neocpu.pipeline import lower
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi import strategy
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.cost.ranking import best_config, best_per_layout
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.schedule.pad import pad_spatial
from tvm_neocpu.topi.table import (
    implementation_of,
    implementations,
    register_implementation,
    space_of,
    unregister_implementation,
)
from tvm_neocpu.tuning.database.history import History

TARGET = parse_target()
CONV = ConvWorkload(1, 6, 9, 9, 10, (3, 3), padding=(1, 1, 1, 1))


@dataclass(frozen=True)
class NaiveConfig:
    """Plain NCHW in, plain NCHW out."""

    template: ClassVar[str] = "naive_conv2d"

    ic_bn: int = 0
    oc_bn: int = 0


def naive_compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: NaiveConfig
) -> te.Tensor:
    padded = pad_spatial(data, conv.padding, (0, 0), "naive_pad")
    axes = [te.reduce_axis((0, n)) for n in (conv.in_channels, *conv.kernel)]
    c, r, s = axes
    return te.compute(
        conv.out_shape,
        lambda n, k, y, x: te.sum(padded[n, c, y + r, x + s] * weight[k, c, r, s], axis=axes),
        name="naive_acc",
        attrs=anchor_attrs(conv, config),
    )


def naive_schedule(sch: Schedule, anchor: Anchor) -> SBlockRV:
    sch.parallel(sch.get_loops(anchor.block)[1])
    return anchor.block


NAIVE = Implementation(
    name=NaiveConfig.template,
    config_type=NaiveConfig,
    guard=lambda conv, cpu: conv.groups == 1 and conv.stride == conv.dilation == (1, 1),
    space=lambda conv, cpu: (NaiveConfig(),),
    compute=naive_compute,
    schedule=naive_schedule,
    pack_weight=lambda weight, conv, config: weight,
    packed_shape=lambda conv, config: conv.weight_shape,
    cost=lambda conv, config, cpu: 1e-12,
)


@pytest.fixture
def naive() -> Iterator[None]:
    """The naive implementation is registered for the time of a test."""
    register_implementation("conv2d", NAIVE)
    yield
    unregister_implementation(NAIVE.name)
    CONFIG_TYPES.pop(NAIVE.name)


def network() -> tvm.IRModule:
    """Convolution, bias, ReLU."""
    rng = np.random.default_rng(0)
    weight = relax.const(rng.normal(size=CONV.weight_shape).astype("float32"))
    bias = relax.const(rng.normal(size=(1, 10, 1, 1)).astype("float32"))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(CONV.in_shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = relax.op.add(relax.op.nn.conv2d(x, weight, padding=1), bias)
            result = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(result)
    return builder.get()


def lowered() -> tvm.IRModule:
    nothing = History(TARGET.cpu.name, TARGET.cpu.cores)
    return lower(network(), TARGET.cpu, nothing)


def run(mod: tvm.IRModule) -> np.ndarray:
    x = np.random.default_rng(1).normal(size=CONV.in_shape).astype("float32")
    machine = relax.VirtualMachine(tvm.compile(mod, TARGET.target), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(x)).numpy()


def assert_uses_naive(mod: tvm.IRModule) -> None:
    assert "naive_acc" in mod.script()
    expected = run(network())
    np.testing.assert_allclose(run(mod), expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_an_implementation_from_outside_is_offered_where_its_guard_accepts(naive: None) -> None:
    assert NAIVE in implementations(CONV, TARGET.cpu)
    assert NaiveConfig() in space_of(CONV, TARGET.cpu)
    assert implementation_of(NaiveConfig()) is NAIVE
    assert NAIVE not in implementations(replace(CONV, stride=(2, 2)), TARGET.cpu)
    assert NAIVE not in implementations(DenseWorkload(1, 8, 8), TARGET.cpu)


def test_the_cheapest_implementation_computes_the_network(naive: None) -> None:
    assert best_config(CONV, NCHW, NCHW, TARGET.cpu) == NaiveConfig()
    assert_uses_naive(lowered())


def test_the_only_implementation_computes_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(strategy._TABLE, "conv2d", [])
    monkeypatch.setitem(CONFIG_TYPES, NAIVE.name, NaiveConfig)
    register_implementation("conv2d", replace(NAIVE, cost=lambda conv, config, cpu: 1.0))
    assert space_of(CONV, TARGET.cpu) == (NaiveConfig(),)
    assert_uses_naive(lowered())


def test_a_dear_implementation_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIG_TYPES, NAIVE.name, NaiveConfig)
    conv2d = [*strategy._TABLE["conv2d"], replace(NAIVE, cost=lambda conv, config, cpu: 1.0)]
    monkeypatch.setitem(strategy._TABLE, "conv2d", conv2d)
    assert "naive_acc" not in lowered().script()


def test_ranking_before_registering_does_not_hide_it() -> None:
    def configs() -> list[Config]:
        return [candidate.config for candidate in best_per_layout(CONV, TARGET.cpu)]

    assert NaiveConfig() not in configs()
    register_implementation("conv2d", NAIVE)
    try:
        assert configs()[0] == NaiveConfig()
    finally:
        unregister_implementation(NAIVE.name)
    assert NaiveConfig() not in configs()


def test_instruction_sets_limit_an_implementation() -> None:
    neon_only = replace(NAIVE, isas=("neon",))
    assert neon_only.accepts(CONV, Cpu("cortex-a72", NEON, 1))
    assert not neon_only.accepts(CONV, replace(TARGET.cpu, isa=replace(NEON, name="avx2")))


def test_a_name_is_given_once(naive: None) -> None:
    with pytest.raises(ConfigError, match="naive_conv2d"):
        register_implementation("conv2d", NAIVE)
    with pytest.raises(ConfigError, match="naive_conv2d"):
        register_implementation("dense", NAIVE)


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"conv3d.*conv2d, dense"):
        register_implementation("conv3d", NAIVE)


def test_a_config_type_must_name_its_template() -> None:
    with pytest.raises(ConfigError, match=r"NaiveConfig\.template must be 'other'"):
        register_implementation("conv2d", replace(NAIVE, name="other"))
    with pytest.raises(ConfigError, match=r"int\.template"):
        register_implementation("conv2d", replace(NAIVE, name="other", config_type=int))


def test_a_config_without_its_implementation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(strategy._TABLE, "conv2d", [])
    with pytest.raises(ConfigError, match=ConvConfig.template):
        implementation_of(ConvConfig(8, 8, 4))


def test_unregistering_what_is_not_there_does_nothing() -> None:
    before = {operator: list(entries) for operator, entries in strategy._TABLE.items()}
    unregister_implementation("nothing")
    assert before == strategy._TABLE
