"""Canonicalize: what the ONNX importer emits, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from tvm_neocpu.relay_passes.folding.canonicalize import Canonicalize
from tvm_neocpu.relay_passes.folding.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.ir.rewrite import tidy

op = relax.op
Build = Callable[..., relax.Expr]

SHAPE = (1, 4, 6, 6)
RNG = np.random.default_rng(0)
VECTOR = RNG.uniform(1, 2, (4, 1, 1)).astype("float32")
WEIGHT = RNG.normal(size=(3, 4, 3, 3)).astype("float32")


def module(build: Build, shape: tuple[int, ...] = SHAPE, dtype: str = "float32") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(x))
        builder.emit_func_output(result)
    return builder.get()


def node(kind: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    names = [name.strip() for name in inputs.split(",")]
    return helper.make_node(kind, names, [output], **attributes)


def onnx_model(
    nodes: list[onnx.NodeProto], opset: int = 13, **constants: np.ndarray | float
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [
            numpy_helper.from_array(np.asarray(v, getattr(v, "dtype", "float32")), k)
            for k, v in constants.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def canonical(model: onnx.ModelProto) -> tvm.IRModule:
    return Canonicalize()(FoldConstants()(from_onnx(model)))


def run(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    executable = tvm.compile(mod, target=tvm.target.Target({"kind": "llvm"}))
    return relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()


def const(value: np.ndarray | float) -> relax.Expr:
    return relax.const(np.asarray(value, "float32"))


SAME = {"auto_pad": "SAME_UPPER"}
PAD = np.array([0, 0, 1, 2, 0, 0, 0, 3])

# Every spelling of the importer: the model, and the whole of what it should become.
IMPORTED: dict[str, tuple[onnx.ModelProto, Build]] = {
    "sum of three": (
        onnx_model([node("Sum", "x,c,x")], c=VECTOR),
        lambda x: op.add(op.add(x, x), const(np.broadcast_to(VECTOR, SHAPE))),
    ),
    "sum of one": (onnx_model([node("Sum", "x")]), lambda x: x),
    "max": (
        onnx_model([node("Relu", "x", "r"), node("Max", "x,r")]),
        lambda x: op.maximum(x, op.nn.relu(x)),
    ),
    "min": (
        onnx_model([node("Relu", "x", "r"), node("Min", "x,r")]),
        lambda x: op.minimum(x, op.nn.relu(x)),
    ),
    "mean": (
        onnx_model([node("Relu", "x", "r"), node("Mean", "x,r")]),
        lambda x: op.multiply(op.add(x, op.nn.relu(x)), const(0.5)),
    ),
    "dropout": (
        onnx_model([node("Dropout", "x", "d"), node("Relu", "d")]),
        lambda x: op.nn.relu(x),
    ),
    "ReLU6, opset 6": (
        onnx_model([node("Clip", "x", min=0.0, max=6.0)], opset=6),
        lambda x: op.clip(x, 0.0, 6.0),
    ),
    "ReLU6, opset 13": (
        onnx_model([node("Clip", "x,a,b")], a=0.0, b=6.0),
        lambda x: op.clip(x, 0.0, 6.0),
    ),
    "clip": (
        onnx_model([node("Clip", "x,a,b")], a=-0.5, b=0.25),
        lambda x: op.clip(x, -0.5, 0.25),
    ),
    "clip below": (onnx_model([node("Clip", "x,a")], a=-0.5), lambda x: op.maximum(x, const(-0.5))),
    "clip below, opset 6": (
        onnx_model([node("Clip", "x", min=-0.5)], opset=6),
        lambda x: op.maximum(x, const(-0.5)),
    ),
    "clip above": (onnx_model([node("Clip", "x,,b")], b=0.5), lambda x: op.minimum(x, const(0.5))),
    "clip below zero": (onnx_model([node("Clip", "x,a")], a=0.0), lambda x: op.nn.relu(x)),
    "clip in the wrong order": (
        onnx_model([node("Clip", "x,a,b")], a=1.0, b=-1.0),
        lambda x: op.minimum(op.maximum(x, const(1.0)), const(-1.0)),
    ),
    "convolution with bias": (
        onnx_model([node("Conv", "x,w,b")], w=WEIGHT, b=np.ones(3, "float32")),
        lambda x: op.add(op.nn.conv2d(x, const(WEIGHT)), const(np.ones((1, 3, 1, 1)))),
    ),
    "slice of everything": (
        onnx_model(
            [node("Slice", "x,b,e,a,s", "t"), node("Relu", "t")],
            b=np.array([0, 0]),
            e=np.array([4, 99]),
            a=np.array([1, 3]),
            s=np.array([1, 1]),
        ),
        lambda x: op.nn.relu(x),
    ),
    "transposes that meet": (
        onnx_model(
            [
                node("Transpose", "x", "t", perm=[0, 2, 3, 1]),
                node("Transpose", "t", "u", perm=[3, 0, 1, 2]),
                node("Relu", "u"),
            ]
        ),
        lambda x: op.nn.relu(op.permute_dims(x, [1, 0, 2, 3])),
    ),
    "transposes that undo each other": (
        onnx_model(
            [
                node("Transpose", "x", "t", perm=[0, 2, 3, 1]),
                node("Transpose", "t", "u", perm=[0, 3, 1, 2]),
                node("Relu", "u"),
            ]
        ),
        lambda x: op.nn.relu(x),
    ),
    "padding the same": (
        onnx_model([node("Conv", "x,w", strides=[2, 2], **SAME)], w=WEIGHT),
        lambda x: op.nn.conv2d(x, const(WEIGHT), strides=2, padding=(0, 0, 1, 1)),
    ),
    "padding by nothing": (
        onnx_model([node("Conv", "x,w", **SAME)], w=WEIGHT[:, :, :1, :1]),
        lambda x: op.nn.conv2d(x, const(WEIGHT[:, :, :1, :1])),
    ),
    "padding twice": (
        onnx_model([node("Pad", "x,p", "z"), node("Conv", "z,w", pads=[1] * 4)], w=WEIGHT, p=PAD),
        lambda x: op.nn.conv2d(x, const(WEIGHT), padding=(2, 3, 1, 4)),
    ),
    "padding before others": (
        onnx_model([node("Pad", "x,p", "z"), node("Relu", "z")], p=PAD),
        lambda x: op.nn.relu(op.nn.pad(x, [0, 0, 0, 0, 1, 0, 2, 3])),
    ),
    "reshape twice": (
        onnx_model(
            [node("Reshape", "x,s", "z"), node("Reshape", "z,t")],
            s=np.array([4, 36]),
            t=np.array([1, 2, 2, 36]),
        ),
        lambda x: op.reshape(x, (1, 2, 2, 36)),
    ),
    "transpose by nothing": (onnx_model([node("Transpose", "x", perm=[0, 1, 2, 3])]), lambda x: x),
    "hard sigmoid": (
        onnx_model([node("HardSigmoid", "x", alpha=0.25)]),
        lambda x: op.clip(op.add(op.multiply(x, const(0.25)), const(0.5)), 0, 1),
    ),
    "SiLU": (
        onnx_model([node("Sigmoid", "x", "s"), node("Mul", "x,s")]),
        lambda x: op.nn.silu(x),
    ),
    "SiLU, gate first": (
        onnx_model([node("Sigmoid", "x", "s"), node("Mul", "s,x")]),
        lambda x: op.nn.silu(x),
    ),
    "another's gate": (
        onnx_model([node("Relu", "x", "r"), node("Sigmoid", "r", "s"), node("Mul", "x,s")]),
        lambda x: op.multiply(x, op.sigmoid(op.nn.relu(x))),
    ),
    "hard swish": (
        onnx_model([node("HardSwish", "x")], opset=14),
        lambda x: op.multiply(
            x, op.multiply(op.clip(op.add(x, const(3)), 0, 6), const(np.float32(1 / 6)))
        ),
    ),
    "global average": (
        onnx_model([node("GlobalAveragePool", "x")]),
        lambda x: op.mean(x, [2, 3], keepdims=True),
    ),
    "divide": (
        onnx_model([node("Div", "x,c")], c=VECTOR),
        lambda x: op.multiply(x, const(1 / VECTOR.astype("float64"))),
    ),
    "subtract": (onnx_model([node("Sub", "x,c")], c=VECTOR), lambda x: op.add(x, const(-VECTOR))),
    "constant first": (onnx_model([node("Mul", "c,x")], c=2.0), lambda x: op.multiply(x, const(2))),
}


@pytest.mark.parametrize("case", IMPORTED)
def test_import_becomes(case: str) -> None:
    model, expected = IMPORTED[case]
    attrs = {"global_symbol": "main", "num_input": 1}
    mod = canonical(model)
    main = module(expected)["main"].with_attrs(attrs)
    tvm.ir.assert_structural_equal(mod, tidy(tvm.IRModule({"main": main})))


@pytest.mark.parametrize("case", IMPORTED)
def test_import_still_computes_the_same(case: str) -> None:
    model, _ = IMPORTED[case]
    x = RNG.normal(scale=3, size=SHAPE).astype("float32")
    want = ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(run(canonical(model), x), want, rtol=1e-5, atol=1e-5)


def test_batch_norm_keeps_only_its_first_result() -> None:
    params = dict.fromkeys("gbmv", np.ones(4, "float32"))
    main = canonical(onnx_model([node("BatchNormalization", "x,g,b,m,v")], **params))["main"]
    norm, first = main.body.blocks[0].bindings
    assert norm.value.op.name == "relax.nn.batch_norm"
    assert first.value.index == 0


STAYS: dict[str, Build] = {
    "division by zero": lambda x: op.divide(x, const(np.zeros((4, 1, 1)))),
    "division by an image": lambda x: op.divide(x, const(RNG.uniform(1, 2, (6, 6)))),
    "subtraction of an image": lambda x: op.subtract(x, const(np.ones(SHAPE))),
    "constant minus tensor": lambda x: op.subtract(const(1.0), x),
    "bound by channel": lambda x: op.maximum(x, const(VECTOR)),
    "sum over another axis": lambda x: op.sum(op.stack([x, x], axis=0), axis=[1]),
    "sum of another stack": lambda x: op.sum(op.stack([x, x], axis=1), axis=[0]),
    "sum that keeps its axis": lambda x: op.sum(op.stack([x, x], axis=0), [0], keepdims=True),
    "padding with ones": lambda x: op.nn.conv2d(
        op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "constant", 1.0), const(WEIGHT)
    ),
    "padding by reflection": lambda x: op.nn.conv2d(
        op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "reflect"), const(WEIGHT)
    ),
    "padding of channels": lambda x: op.nn.conv2d(
        op.nn.pad(x, [0, 0, 1, 1, 0, 0, 0, 0]), const(np.ones((3, 6, 1, 1)))
    ),
    "minimum of a minimum": lambda x: op.minimum(op.minimum(x, const(1.0)), const(2.0)),
    "dropout's mask": lambda x: relax.TupleGetItem(op.nn.dropout(x), 1),
    "average pooling": lambda x: op.nn.avg_pool2d(x, (2, 2)),
    "slice of a part": lambda x: op.strided_slice(x, [1], [0], [3]),
    "slice backwards": lambda x: op.strided_slice(x, [3], [5], [-7], [-1]),
    "real transpose": lambda x: op.permute_dims(x, [0, 1, 3, 2]),
}


@pytest.mark.parametrize("case", STAYS)
def test_stays(case: str) -> None:
    mod = module(STAYS[case])
    tvm.ir.assert_structural_equal(Canonicalize()(mod), mod)


def test_integers_are_not_divided_by_reciprocals() -> None:
    mod = module(lambda x: op.divide(x, relax.const(3, "int32")), dtype="int32")
    tvm.ir.assert_structural_equal(Canonicalize()(mod), mod)


def test_padding_with_ones_stays_as_the_importer_wrote_it() -> None:
    model = onnx_model([node("Pad", "x,p,v", "z"), node("Conv", "z,w")], w=WEIGHT, p=PAD, v=1.0)
    mod = canonical(model)
    assert {name.name_hint for name in mod.get_global_vars()} == {"main", "pad"}
    x = RNG.normal(size=SHAPE).astype("float32")
    want = ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(run(mod, x), want, rtol=1e-5, atol=1e-5)


def test_loops_of_somebody_else_stay() -> None:
    """A PrimFunc that ends in a maximum, but of something else than its argument."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))

    def compute(data: Any) -> Any:
        return tvm.te.compute(
            data.shape, lambda n, c, h, w: tvm.te.max(data[n, c, w, h], tvm.tirx.const(0.0)), "max"
        )

    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.call_te(compute, x))
        builder.emit_func_output(result)
    mod = builder.get()
    tvm.ir.assert_structural_equal(Canonicalize()(mod), mod)


def test_the_argument_is_left_alone() -> None:
    mod = FoldConstants()(from_onnx(IMPORTED["sum of three"][0]))
    text = mod.script()
    Canonicalize()(mod)
    assert mod.script() == text
