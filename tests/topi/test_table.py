"""The table of operators: what it refuses, what a room holds, implementations from outside."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import NCHW
from tvm_neocpu.pipeline import lower
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi import table
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.cost.ranking import best_config, best_per_layout
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.operator import DENSE
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.operator import Implementation, Operator
from tvm_neocpu.topi.schedule.pad import pad_spatial
from tvm_neocpu.topi.table import (
    BUILT_IN,
    add_operator,
    all_implementations,
    find_implementation,
    fits,
    implementation_of,
    implementations,
    operator_of,
    operator_of_template,
    operators,
    register_implementation,
    remove_operator,
    space_of,
    types_of,
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


def naive_schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
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
    monkeypatch.setitem(table._IMPLEMENTATIONS, "conv2d", [])
    register_implementation("conv2d", replace(NAIVE, cost=lambda conv, config, cpu: 1.0))
    assert space_of(CONV, TARGET.cpu) == (NaiveConfig(),)
    assert_uses_naive(lowered())


def test_a_dear_implementation_is_not_used() -> None:
    register_implementation("conv2d", replace(NAIVE, cost=lambda conv, config, cpu: 1.0))
    try:
        assert "naive_acc" not in lowered().script()
    finally:
        unregister_implementation(NAIVE.name)


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


def test_a_config_without_its_implementation_is_refused() -> None:
    with pytest.raises(ConfigError, match="naive_conv2d"):
        implementation_of(NaiveConfig())
    with pytest.raises(ConfigError, match="naive_conv2d"):
        types_of(NAIVE.name)
    assert find_implementation(NAIVE.name) is None
    assert operator_of_template(NAIVE.name) is None
    assert not fits(CONV, NaiveConfig(), TARGET.cpu)


def test_a_workload_without_its_operator_is_refused() -> None:
    with pytest.raises(ConfigError, match="no operator has workloads of type int"):
        operator_of(3)  # type: ignore[arg-type]


def everything() -> list[object]:
    """All that any public function of the table tells."""
    templates = [entry.name for entry in all_implementations()]
    return [
        operators(),
        all_implementations(),
        [operator_of_template(name) for name in templates],
        [types_of(name) for name in templates],
        implementations(CONV, TARGET.cpu),
        space_of(CONV, TARGET.cpu),
    ]


def test_unregistering_leaves_nothing_behind() -> None:
    before = everything()
    register_implementation("conv2d", NAIVE)
    assert types_of(NAIVE.name) == (ConvWorkload, NaiveConfig)
    assert fits(CONV, NaiveConfig(), TARGET.cpu)
    unregister_implementation(NAIVE.name)
    assert everything() == before
    assert not fits(CONV, NaiveConfig(), TARGET.cpu)
    # The name is free again, of another operator too.
    register_implementation("dense", NAIVE)
    unregister_implementation(NAIVE.name)
    assert everything() == before


def test_unregistering_what_is_not_there_does_nothing() -> None:
    before = everything()
    unregister_implementation("nothing")
    remove_operator("nothing")
    assert everything() == before


@dataclass(frozen=True)
class Twice(DenseWorkload):
    """A workload of another operator's: a dense layer's, by another name."""


TWICE = replace(DENSE, name="twice", workload_type=Twice)


def test_an_operator_comes_without_implementations_and_leaves_with_them() -> None:
    before = everything()
    add_operator(TWICE)
    assert operator_of(Twice(1, 8, 8)) is TWICE
    assert implementations(Twice(1, 8, 8), TARGET.cpu) == ()
    register_implementation("twice", NAIVE)
    assert operator_of_template(NAIVE.name) is TWICE
    remove_operator("twice")
    assert everything() == before
    assert find_implementation(NAIVE.name) is None
    with pytest.raises(ConfigError, match="Twice"):
        operator_of(Twice(1, 8, 8))


@pytest.mark.parametrize(
    "taken",
    [replace(TWICE, name="dense"), replace(TWICE, workload_type=DenseWorkload)],
    ids=["name", "workload type"],
)
def test_an_operator_is_there_once(taken: Operator) -> None:
    before = everything()
    with pytest.raises(ConfigError, match="the operator 'dense' exists already"):
        add_operator(taken)
    assert everything() == before


def test_a_config_fits_the_operator_that_it_is_of() -> None:
    direct, dense = ConvConfig(6, 10, 9), DenseConfig(16)
    assert fits(CONV, direct, TARGET.cpu) and fits(DenseWorkload(1, 8, 8), dense, TARGET.cpu)
    assert not fits(CONV, dense, TARGET.cpu)
    assert not fits(DenseWorkload(1, 8, 8), direct, TARGET.cpu)
    assert not fits(CONV, replace(direct, ic_bn=4), TARGET.cpu)


def test_the_built_in_table_is_what_is_registered() -> None:
    assert operators() == tuple(operator for operator, _ in BUILT_IN)
    assert all_implementations() == tuple(entry for _, entries in BUILT_IN for entry in entries)


@pytest.mark.parametrize("entry", all_implementations(), ids=lambda entry: entry.name)
def test_every_room_has_the_same_four_files(entry: Implementation) -> None:
    room = Path(inspect.getfile(entry.config_type)).parent
    for name, found in (
        ("geometry", entry.config_type),
        ("template", entry.compute),
        ("space", entry.space),
        ("cost", entry.cost),
    ):
        assert Path(inspect.getfile(found)) == room / f"{name}.py"


def test_every_file_of_a_room_has_its_tests() -> None:
    tests = Path(__file__).parent
    rooms = {Path(inspect.getfile(entry.config_type)).parent for entry in all_implementations()}
    wanted = {
        f"{room.name}/test_{name}.py"
        for room in rooms
        for name in ("geometry", "template", "space", "cost")
    }
    assert wanted <= {str(path.relative_to(tests)) for path in tests.glob("*/test_*.py")}
