"""An operator of another element type, in one file, as a stranger would add it.

A dense layer whose data and weight are stored as float16 and summed as float32: a workload, a
config, a geometry, a template, a space, a cost, and two calls that put them into the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import tvm
from nests import nest
from prefetches import asked_for, lines_of
from samples import assert_close, run, sample
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.core.types import Types, item_bytes
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.cost.ranking import best_per_layout, predict_seconds, ranked
from tvm_neocpu.topi.cost.roofline import Traffic, Work, seconds, tile_step_cycles
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.operator import Implementation, Operator
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.table import (
    add_operator,
    implementations,
    operator_of,
    register_implementation,
    remove_operator,
    types_of,
)
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel

HALF_STORAGE = Types("float16", "float16", "float32", "float32")


@dataclass(frozen=True, order=True)
class HalfDense(Workload):
    """``Y[row, out] = sum over k of X[row, k] * W[out, k]``, W as PyTorch keeps it."""

    rows: int
    features: int
    outputs: int
    types: Types = HALF_STORAGE

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand("data", (self.rows, self.features), self.types.data),
            Operand("weight", (self.outputs, self.features), self.types.weight, Role.WEIGHT),
        )

    @property
    def out_shape(self) -> tuple[int, int]:
        return (self.rows, self.outputs)

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.features * self.outputs

    def args(self) -> list[Any]:
        return [[self.rows, self.features, self.outputs], self.types.data, self.types.output]

    def __str__(self) -> str:
        return f"half dense {self.rows}x{self.features}->{self.outputs}"


@dataclass(frozen=True, order=True)
class HalfDenseConfig:
    """Blocks of ``oc_tile`` outputs, ``row_tile`` rows of which are held in registers."""

    template: ClassVar[str] = "half_dense_pack"

    oc_tile: int
    row_tile: int = 1


@dataclass(frozen=True)
class HalfDenseGeometry:
    dense: HalfDense
    config: HalfDenseConfig

    @property
    def blocks(self) -> int:
        return self.dense.outputs // self.config.oc_tile

    @property
    def packed_shape(self) -> tuple[int, ...]:
        return (self.blocks, self.dense.features, self.config.oc_tile)


def misfit(dense: HalfDense, config: HalfDenseConfig) -> str | None:
    if min(config.oc_tile, config.row_tile) < 1:
        return "its tiles are empty"
    if dense.outputs % config.oc_tile or dense.rows % config.row_tile:
        return "its tiles do not divide the layer"
    return None


def space(dense: HalfDense, cpu: Cpu) -> tuple[HalfDenseConfig, ...]:
    unit = cpu.unit(dense.types.accumulator)
    configs = (
        HalfDenseConfig(vectors * unit.lanes, rows)
        for vectors in (1, 2, 4)
        for rows in (1, 2, 4, 8)
        if unit.holds_tile(rows, vectors)
    )
    return tuple(config for config in configs if misfit(dense, config) is None)


def cost(dense: HalfDense, config: HalfDenseConfig, cpu: Cpu) -> float:
    unit = cpu.unit(dense.types.accumulator)
    tiles = dense.rows // config.row_tile * HalfDenseGeometry(dense, config).blocks
    step = tile_step_cycles(config.row_tile, unit.registers_of(config.oc_tile), cpu, unit)
    traffic = Traffic(from_l2=0.0, from_l3=0.0, from_dram=0.0, prefetched=dense.weight_bytes)
    return seconds(Work(tiles * dense.features * step, tiles, traffic), cpu)


def compute(
    data: te.Tensor, weight: te.Tensor, dense: HalfDense, config: HalfDenseConfig
) -> te.Tensor:
    k = te.reduce_axis((0, dense.features), name="k")
    wide = dense.types.accumulator
    acc = te.compute(
        (dense.rows, HalfDenseGeometry(dense, config).blocks, config.oc_tile),
        # The weight first: nothing may depend on which operand is which.
        lambda b, o, c: te.sum(weight[o, k, c].astype(wide) * data[b, k].astype(wide), axis=[k]),
        name="half_acc",
        attrs=anchor_attrs(dense, config),
    )
    return te.compute(
        dense.out_shape,
        lambda b, o: acc[b, o // config.oc_tile, o % config.oc_tile].astype(dense.types.output),
        name="half_store",
    )


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """# parallel for o: for bo: for k: tile of bi, c in registers; epilogue."""
    unit = cpu.unit(anchor.workload.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock("half_store"))
    b, o, c, k = sch.get_loops(anchor.block)
    bo, bi = steps.split_off(sch, b, anchor.config.row_tile)
    sch.reorder(o, bo, k, bi, c)
    steps.unroll_all(sch, bi)
    steps.vectorize_lanes(sch, c, unit)
    steps.parallel_fused(sch, o)
    prefetch_next_panel(sch, k)
    zero = sch.decompose_reduction(anchor.block, k)
    steps.unroll_and_vectorize(sch, zero, unit, pixels=1)
    steps.parallel_and_vectorize(sch, output, unit)
    return output


def pack_weight(weight: np.ndarray, dense: HalfDense, config: HalfDenseConfig) -> np.ndarray:
    blocked = weight.reshape(-1, config.oc_tile, dense.features)
    return np.ascontiguousarray(blocked.transpose(0, 2, 1))


def decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> HalfDense:
    if len(args) != 3 or args[1:] != [HALF_STORAGE.data, HALF_STORAGE.output]:
        raise LineError("it is no dense layer of half precision")
    return HalfDense(*args[0])


def reference(dense: HalfDense, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    product = data.astype("float64") @ weight.astype("float64").T
    return product.astype(dense.types.output)


HALF_DENSE = Operator("half_dense", HalfDense, decode, reference)
HALF_DENSE_PACK = Implementation(
    name=HalfDenseConfig.template,
    config_type=HalfDenseConfig,
    guard=lambda dense, cpu: bool(space(dense, cpu)),
    space=space,
    compute=compute,
    schedule=schedule,
    pack_weight=pack_weight,
    packed_shape=lambda dense, config: HalfDenseGeometry(dense, config).packed_shape,
    cost=cost,
    misfit=misfit,
    types=(HALF_STORAGE,),
)

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
DENSE = HalfDense(8, 96, 128)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The operator and its implementation, for the time of a test."""
    add_operator(HALF_DENSE)
    register_implementation("half_dense", HALF_DENSE_PACK)
    yield
    remove_operator("half_dense")


def test_the_table_knows_it() -> None:
    assert operator_of(DENSE) is HALF_DENSE
    assert implementations(DENSE, SKYLAKE) == (HALF_DENSE_PACK,)
    assert types_of("half_dense_pack") == (HalfDense, HalfDenseConfig)
    assert not HALF_DENSE_PACK.accepts(replace(DENSE, types=Types(*["float16"] * 4)), SKYLAKE)


def test_bytes_follow_from_the_types() -> None:
    assert (DENSE.in_bytes, DENSE.weight_bytes) == (2 * 8 * 96, 2 * 96 * 128)
    assert DENSE.out_bytes == 4 * 8 * 128
    assert DENSE.min_bytes == DENSE.in_bytes + DENSE.weight_bytes + DENSE.out_bytes
    assert item_bytes(DENSE.types.data) == 2


def test_lanes_are_those_of_what_is_summed() -> None:
    assert {config.oc_tile for config in space(DENSE, SKYLAKE)} == {16, 32, 64}
    assert {config.oc_tile for config in space(DENSE, HASWELL)} == {8, 16, 32}
    config = HalfDenseConfig(32, 4)
    assert nest(DENSE, config, "half_acc_update", SKYLAKE) == (
        "parallel 4, 2, 96, unroll 4, vector 32"
    )
    # A vector that the accumulators' type cuts: 128 values are at most eight registers of 8.
    wide = HalfDenseConfig(128, 1)
    assert nest(DENSE, wide, "half_acc_update", HASWELL).endswith("unroll 2, vector 64")


@pytest.mark.parametrize("config", space(DENSE, SKYLAKE), ids=str)
def test_numbers(config: HalfDenseConfig) -> None:
    """With bias and ReLU behind it, which are of the output's type."""
    case = sample(DENSE, config, np.random.default_rng(0))
    assert [str(array.dtype) for array in case.inputs] == ["float16", "float16"]
    bias = np.linspace(-9, 9, DENSE.outputs, dtype="float32")
    expected = np.maximum(case.expected + bias, 0)
    func = kernel(DENSE, config, SKYLAKE)
    assert [str(param.dtype) for param in func.params] == ["float16"] * 2 + ["float32"] * 2
    found = run(func, [*case.inputs, bias], expected.shape, "float32")
    assert_close(found, expected, 1e-6)


def test_sums_are_of_single_precision() -> None:
    """2048 ones and a half: in float16 the sum stays at 2048."""
    dense, config = HalfDense(1, 4096, 16), HalfDenseConfig(16)
    data, weight = np.ones((1, 4096), "float16"), np.ones((16, 4096), "float16")
    inputs = [data, pack_weight(weight, dense, config), np.zeros(16, "float32")]
    found = run(kernel(dense, config, SKYLAKE), inputs, (1, 16), "float32")
    np.testing.assert_array_equal(found, np.full((1, 16), 4096, "float32"))


def test_code_multiplies_in_vectors_of_the_accumulators() -> None:
    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    built = tvm.compile(kernel(DENSE, HalfDenseConfig(32, 4), target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    assert "vcvtph2ps" in assembly and "%zmm" in assembly
    assert "ps\t" in assembly and "vfmadd" in assembly


def test_every_line_of_weights_is_asked_for() -> None:
    """A line holds 32 of them: a panel is asked for while the one before it is multiplied."""
    dense, config = HalfDense(1, 128, 1024), HalfDenseConfig(32)
    func = schedule_blocks(unscheduled(dense, config), SKYLAKE)
    ((loops, element),) = asked_for(func, "weight")
    line = SKYLAKE.line // item_bytes("float16")
    first, whole = 128 * 32 // line, 128 * 1024 // line
    assert lines_of(loops, element, line) == set(range(first, whole + first))


def test_the_model_ranks_it() -> None:
    found = ranked(DENSE, SKYLAKE)
    assert {candidate.config for candidate in found} == set(space(DENSE, SKYLAKE))
    (best,) = best_per_layout(DENSE, SKYLAKE)
    assert best.seconds == predict_seconds(DENSE, best.config, SKYLAKE)
    assert best.config.row_tile > 1


def test_a_log_line_is_read_back() -> None:
    args = json.loads(json.dumps(DENSE.args()))
    assert HALF_DENSE.decode("half_dense_pack", args, DENSE.extras()) == DENSE
    with pytest.raises(LineError):
        HALF_DENSE.decode("half_dense_pack", [[8, 96, 128], "float32", "float32"], {})
