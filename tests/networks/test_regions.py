"""Networks that are no one straight line, or no ``main``: planned all the same, and right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, NodeKind
from tvm_neocpu.pipeline import apply_plan, fold, lower
from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.ir.regions import bindings_of
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target

op = relax.op
TARGET = parse_target()
CPU = TARGET.cpu
WIDE_CPU = Cpu("icelake-server", AVX512, cores=1)
RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(32, c, 3, 3)).astype("float32") for c in (8, 32, 32, 32)]
IMAGE, SHAPE = (1, 8, 6, 5), (1, 32, 6, 5)
X = RNG.normal(size=IMAGE).astype("float32")


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NEOCPU_DEBUG", "verify")


def tensor(shape: tuple[int, ...]) -> relax.TensorType:
    return relax.TensorType(shape, "float32")


def conv(x: relax.Expr, layer: int) -> relax.Expr:
    return op.nn.conv2d(x, relax.const(WEIGHTS[layer]), padding=1)


def stack(builder: relax.BlockBuilder, x: relax.Var, *layers: int) -> relax.Var:
    for layer in layers:
        x = builder.emit(op.nn.relu(builder.emit(conv(x, layer))))
    return x


def straight(name: str = "main", dataflow: bool = True) -> tvm.IRModule:
    """Four convolutions, each with its ReLU."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", tensor(IMAGE))
    with builder.function(name, [x]):
        if not dataflow:
            builder.emit_func_output(stack(builder, x, 0, 1, 2, 3))
            return builder.get()
        with builder.dataflow():
            out = builder.emit_output(stack(builder, x, 0, 1, 2, 3))
        builder.emit_func_output(out)
    return builder.get()


def with_cast() -> tvm.IRModule:
    """The same; behind the second convolution only a cast knows the shape."""
    builder = relax.BlockBuilder()
    x, shape = relax.Var("x", tensor(IMAGE)), relax.Var("shape", relax.ShapeType(ndim=4))
    with builder.function("main", [x, shape]):
        with builder.dataflow():
            y = stack(builder, x, 0, 1)
            y = builder.emit(op.reshape(y, shape))
            y = builder.match_cast(y, tensor(SHAPE))
            out = builder.emit_output(stack(builder, y, 2, 3))
        builder.emit_func_output(out)
    return builder.get()


def with_branch() -> tvm.IRModule:
    """Two convolutions; by a flag two more, or their negation; one more."""
    builder = relax.BlockBuilder()
    x, flag = relax.Var("x", tensor(IMAGE)), relax.Var("flag", relax.TensorType((), "bool"))

    def branch(write: Callable[[], relax.Var]) -> relax.SeqExpr:
        builder._begin_binding_block()
        result = write()
        return relax.SeqExpr([builder._end_block()], result)

    with builder.function("main", [x, flag]):
        y = stack(builder, x, 0, 1)
        yes = branch(lambda: stack(builder, y, 2, 3))
        no = branch(lambda: builder.emit(op.negative(y)))
        z = builder.emit(relax.If(flag, yes, no))
        builder.emit_func_output(stack(builder, z, 1))
    return builder.get()


def with_call() -> tvm.IRModule:
    """Two functions of two convolutions, each public; ``main`` calls ``tail``."""
    builder = relax.BlockBuilder()
    y = relax.Var("y", tensor(SHAPE))
    with builder.function("tail", [y]):
        with builder.dataflow():
            out = builder.emit_output(stack(builder, y, 2, 3))
        builder.emit_func_output(out)
    tail = builder.get().get_global_var("tail")
    x = relax.Var("x", tensor(IMAGE))
    with builder.function("main", [x]):
        with builder.dataflow():
            z = stack(builder, x, 0, 1)
            out = builder.emit_output(relax.Call(tail, [z]))
        builder.emit_func_output(out)
    return builder.get()


def with_padding_and_shuffle() -> tvm.IRModule:
    """58 channels, which are padded; scaled, shuffled and cast; then two more convolutions."""
    builder = relax.BlockBuilder()
    emit = builder.emit
    x, shape = relax.Var("x", tensor(IMAGE)), relax.Var("shape", relax.ShapeType(ndim=4))

    def wide(data: relax.Expr, inputs: int) -> relax.Var:
        weight = np.random.default_rng(inputs).normal(size=(58, inputs, 1, 1)).astype("float32")
        return emit(op.nn.conv2d(data, relax.const(weight)))

    with builder.function("main", [x, shape]):
        with builder.dataflow():
            y = emit(op.multiply(wide(x, 8), relax.const(2.0, "float32")))
            y = emit(op.reshape(y, (1, 2, 29, 6, 5)))
            y = emit(op.reshape(emit(op.permute_dims(y, [0, 2, 1, 3, 4])), (1, 58, 6, 5)))
            cast = builder.match_cast(emit(op.reshape(y, shape)), tensor((1, 58, 6, 5)))
            both = emit(op.add(wide(emit(op.nn.relu(cast)), 58), y))
            out = builder.emit_output(wide(both, 58))
        builder.emit_func_output(out)
    return builder.get()


def graph_of(mod: tvm.IRModule) -> ConvGraph:
    return ExtractConvGraph(CPU)(fold(mod, CPU))


def run(mod: tvm.IRModule, name: str, *inputs: object, pipeline: str = "neocpu") -> np.ndarray:
    executable = tvm.compile(mod, TARGET.target, relax_pipeline=pipeline)
    return relax.VirtualMachine(executable, tvm.cpu())[name](*inputs).numpy()


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.max(np.abs(found - expected)) < 1e-4 * np.max(np.abs(expected)))


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    """By TVM's own loops, which know no layout."""
    return run(straight(), "main", tvm.runtime.tensor(X), pipeline="default")


def test_the_entry_may_have_any_name(reference: np.ndarray) -> None:
    assert close(run(straight("predict"), "predict", tvm.runtime.tensor(X)), reference)


def test_bindings_outside_of_dataflow_are_fused_too() -> None:
    functions = [lower(straight(dataflow=flag), CPU).functions_items() for flag in (True, False)]
    names = [sorted(var.name_hint for var, _ in items) for items in functions]
    assert names[0] == names[1]


def test_attributes_of_module_and_functions_are_kept() -> None:
    mod = straight("predict").with_attr("made_by", "a test")
    mod.update_func(mod.get_global_var("predict"), mod["predict"].with_attr("num_input", 1))
    lowered = lower(mod, CPU)
    assert lowered.attrs["made_by"] == "a test"
    assert lowered["predict"].attrs["num_input"] == 1


def test_both_sides_of_a_cast_are_planned(reference: np.ndarray) -> None:
    graph = graph_of(with_cast())
    assert len(graph.convs) == 4
    assert {edge.dst for edge in graph.edges} <= set(graph.by_id)
    # The cast cuts the graph in two; a chain of four would have three inner edges.
    kind = {node.id: node.kind for node in graph.nodes}
    inner = [e for e in graph.edges if kind[e.src] is kind[e.dst] is NodeKind.CONV]
    assert len(inner) == 2
    shape = tvm.runtime.ShapeTuple(SHAPE)
    assert close(run(with_cast(), "main", tvm.runtime.tensor(X), shape), reference)


def test_what_crosses_a_cast_is_plain() -> None:
    folded = fold(with_cast(), CPU)
    altered = apply_plan(folded, choose_plan(ExtractConvGraph(CPU)(folded), CPU), CPU)
    (cast,) = (b for b in bindings_of(altered["main"]) if isinstance(b, relax.MatchCast))
    assert cast.value.ty.ndim == 4
    assert count_transforms(altered) == 4


@pytest.mark.parametrize("flag", [True, False])
def test_branches_are_planned(flag: bool) -> None:
    assert len(graph_of(with_branch()).convs) == 5
    inputs = tvm.runtime.tensor(X), tvm.runtime.tensor(np.array(flag))
    expected = run(with_branch(), "main", *inputs, pipeline="default")
    assert close(run(with_branch(), "main", *inputs), expected)


def test_every_function_is_planned(reference: np.ndarray) -> None:
    graph = graph_of(with_call())
    assert len(graph.convs) == len({node.id for node in graph.convs}) == 4
    assert len(graph.by_id) == len(graph.nodes)
    assert close(run(with_call(), "main", tvm.runtime.tensor(X)), reference)


def test_folded_tensors_cross_a_cast_as_they_were() -> None:
    mod = with_padding_and_shuffle()
    inputs = tvm.runtime.tensor(X), tvm.runtime.ShapeTuple((1, 58, 6, 5))
    shapes = {static_shape(b.var) for b in bindings_of(fold(mod, WIDE_CPU)["main"])}
    assert shapes >= {(1, 58, 6, 5), (1, 64, 6, 5)}
    assert close(run(mod, "main", *inputs), run(mod, "main", *inputs, pipeline="default"))
