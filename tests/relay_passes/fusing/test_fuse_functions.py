"""FuseFunctions: a template and its elementwise epilogue become one function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.schedule_function import anchor_of, schedule_blocks

op = relax.op
Epilogue = Callable[..., relax.Expr]

CPU = Cpu("haswell", AVX2, cores=1)
SHAPE = (1, 2, 6, 6, 8)


def fused(epilogue: Epilogue) -> list[tirx.PrimFunc]:
    """The functions of a blocked convolution and what follows it."""
    builder = relax.BlockBuilder()
    x, other = (relax.Var(name, relax.TensorType(SHAPE, "float32")) for name in ("x", "other"))
    weight = relax.const(np.zeros((16, 16, 1, 1), "float32"))
    blocked = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
    with builder.function("main", [x, other]):
        with builder.dataflow():
            y = builder.emit(op.nn.conv2d(x, weight, **blocked))
            result = builder.emit_output(epilogue(builder.emit, y, other))
        builder.emit_func_output(result)
    mod = FuseFunctions()(LowerToTemplates(CPU)(builder.get()))
    return [func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc)]


BIAS = relax.const(np.zeros((1, 2, 1, 1, 8), "float32"))


@pytest.mark.parametrize(
    "epilogue",
    [
        lambda emit, y, other: emit(op.nn.relu(emit(op.add(y, BIAS)))),
        lambda emit, y, other: emit(op.nn.relu(emit(op.add(emit(op.add(y, BIAS)), other)))),
        lambda emit, y, other: emit(op.multiply(y, emit(op.sigmoid(y)))),
        lambda emit, y, other: emit(op.clip(y, 0, 6)),
    ],
    ids=["bias, ReLU", "residual", "swish", "ReLU6"],
)
def test_an_elementwise_epilogue_is_fused(epilogue: Epilogue) -> None:
    (func,) = fused(epilogue)
    assert anchor_of(Schedule(func)) is not None


def hard_swish(emit: Callable, y: relax.Var, other: relax.Var) -> relax.Var:
    biased = emit(op.add(y, BIAS))
    gate = emit(op.clip(emit(op.add(biased, relax.const(3.0))), 0, 6))
    return emit(op.multiply(biased, gate))


@pytest.mark.parametrize(
    "epilogue",
    [hard_swish, lambda emit, y, other: emit(op.nn.relu(hard_swish(emit, y, other)))],
    ids=["hard swish", "ReLU of hard swish"],
)
def test_what_branches_and_meets_again_is_one_store(epilogue: Epilogue) -> None:
    (func,) = fused(epilogue)
    scheduled = Schedule(schedule_blocks(func, CPU))
    blocks = [str(scheduled.get(block).name_hint) for block in child_blocks(scheduled)]
    stores = [name for name in blocks if not name.startswith("conv2d_")]
    marks = ("chunks_end", "fake_use")  # no stores
    assert len([name for name in stores if name not in marks]) == 1


def test_what_feeds_a_template_is_not_fused_into_it() -> None:
    functions = fused(lambda emit, y, other: emit(op.nn.max_pool2d(y, layout="NCHW8c")))
    assert len(functions) == 2
