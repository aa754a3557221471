"""LowerToTemplates: calls become the templates' functions, weights become packed constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates, layout_key
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.cost.ranking import best_config
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.schedule_function import anchor_of
from tvm_neocpu.topi.table import implementation_of

op = relax.op
Emit = Callable[[relax.Expr], relax.Var]

CPU = Cpu("haswell", AVX2, cores=1)
CONV = ConvWorkload(1, 16, 6, 6, 24, (3, 3), padding=(1, 1, 1, 1))
DENSE = DenseWorkload(2, 16, 10)
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=CONV.weight_shape).astype("float32")
MATRIX = RNG.normal(size=(16, 10)).astype("float32")


def module(build: Callable[..., relax.Expr], *shapes: tuple[int, ...]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    types = [relax.TensorType(shape, "float32") for shape in shapes]
    inputs = [relax.Var(f"x{i}", ty) for i, ty in enumerate(types)]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, *inputs))
        builder.emit_func_output(result)
    return builder.get()


def conv(x: relax.Var, before: int, after: int) -> relax.Expr:
    layouts = {"data_layout": str(Layout(before)), "out_layout": str(Layout(after))}
    return op.nn.conv2d(x, relax.const(WEIGHT), padding=1, kernel_layout="OIHW", **layouts)


def dense(x: relax.Var) -> relax.Expr:
    return op.matmul(x, relax.const(MATRIX))


def stored(before: int) -> tuple[int, ...]:
    return Layout(before).shape_of(CONV.in_shape)


def calls(mod: tvm.IRModule) -> list[relax.Call]:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [value for value in values if isinstance(value, relax.Call)]


def anchors(mod: tvm.IRModule) -> list[tuple[Workload, Config]]:
    """What each call of a template's function was made for."""
    found = []
    for call in calls(mod):
        func = mod.functions.get(call.args[0]) if call.op.name == "relax.call_tir" else None
        anchor = anchor_of(Schedule(func)) if isinstance(func, tirx.PrimFunc) else None
        if anchor is not None:
            found.append((anchor.workload, anchor.config))
    return found


def lowered(mod: tvm.IRModule, *configs: tuple[Workload, Config]) -> tvm.IRModule:
    table = {layout_key(workload, config): config for workload, config in configs}
    return LowerToTemplates(CPU, table)(mod)


CASES = [
    pytest.param(
        CONV,
        ConvConfig(8, 24, 3),
        WEIGHT,
        lambda emit, x: emit(conv(x, 8, 24)),
        stored(8),
        id="conv",
    ),
    pytest.param(
        DENSE, DenseConfig(16, 2), MATRIX, lambda emit, x: emit(dense(x)), (2, 16), id="dense"
    ),
]


@pytest.mark.parametrize(("workload", "config", "weight", "build", "shape"), CASES)
def test_the_config_of_the_table_is_used_and_its_weight_packed(
    workload: Workload,
    config: Config,
    weight: np.ndarray,
    build: Callable[..., relax.Expr],
    shape: tuple[int, ...],
) -> None:
    mod = lowered(module(build, shape), (workload, config))
    assert anchors(mod) == [(workload, config)]
    (call,) = calls(mod)
    packed = call.args[1].fields[1].value.numpy()
    implementation = implementation_of(config)
    np.testing.assert_array_equal(packed, implementation.pack_weight(weight, workload, config))
    assert packed.shape == tuple(implementation.packed_shape(workload, config))


def test_without_a_table_the_cost_model_decides() -> None:
    mod = lowered(module(lambda emit, x: emit(conv(x, 8, 24)), stored(8)))
    assert anchors(mod) == [(CONV, best_config(CONV, Layout(8), Layout(24), CPU))]
    mod = lowered(module(lambda emit, x: emit(dense(x)), (2, 16)))
    assert anchors(mod) == [(DENSE, best_config(DENSE, NCHW, NCHW, CPU))]


def test_layouts_tell_calls_of_one_workload_apart() -> None:
    def build(emit: Emit, x: relax.Var, y: relax.Var) -> relax.Expr:
        return emit(op.add(emit(conv(x, 16, 8)), emit(conv(y, 8, 8))))

    wide, narrow = ConvConfig(16, 8, 6), ConvConfig(8, 8, 3)
    mod = lowered(module(build, stored(16), stored(8)), (CONV, narrow), (CONV, wide))
    assert [config for _, config in anchors(mod)] == [wide, narrow]


UNTOUCHED = {
    "other operators": (lambda emit, x: emit(op.nn.relu(emit(op.add(x, x)))), [CONV.in_shape]),
    "a weight that is no constant": (
        lambda emit, x, w: emit(op.nn.conv2d(x, w)),
        [CONV.in_shape, CONV.weight_shape],
    ),
    "layouts that no template offers": (lambda emit, x: emit(conv(x, 0, 0)), [CONV.in_shape]),
    "somebody else's transform": (
        lambda emit, x: emit(op.layout_transform(x, lambda n, c, h, w: (n, h, w, c))),
        [CONV.in_shape],
    ),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_no_template_takes_is_left(name: str) -> None:
    build, shapes = UNTOUCHED[name]
    mod = module(build, *shapes)
    tvm.ir.assert_structural_equal(lowered(mod), mod)


def test_a_tensor_in_memory_is_read_where_it_is() -> None:
    """A 1x1 convolution needs no padding: its function has no stage that copies the input."""
    weight = relax.const(RNG.normal(size=(16, 16, 1, 1)).astype("float32"))
    blocked = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
    mod = module(lambda emit, x: op.nn.conv2d(x, weight, **blocked), (1, 2, 6, 6, 8))
    lowered = LowerToTemplates(CPU)(mod)
    (function,) = [f for f in lowered.functions.values() if isinstance(f, tirx.PrimFunc)]
    sch = Schedule(function)
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_sblock("root"))]
    assert blocks == ["conv2d_acc", "conv2d_store"]
