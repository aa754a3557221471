"""A network in double precision takes the same way: folded, blocked, computed by templates."""

from __future__ import annotations

import copy

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, tirx
from tvm.s_tir import Schedule

import tvm_neocpu
from tvm_neocpu import pipeline
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.schedule_function import anchor_of

SHAPES = {
    "w1": (32, 3, 3, 3),
    "b1": (32,),
    "w2": (32, 1, 3, 3),
    "w3": (64, 32, 1, 1),
    **{name: (64,) for name in ("b3", "scale", "shift", "mean", "variance")},
    "fc": (64, 10),
}
NODES = [
    helper.make_node("Conv", ["data", "w1", "b1"], ["stem"], pads=[1] * 4, strides=[2, 2]),
    helper.make_node("Relu", ["stem"], ["a"]),
    helper.make_node("Conv", ["a", "w2"], ["b"], pads=[1] * 4, group=32),
    helper.make_node("Conv", ["b", "w3", "b3"], ["c"]),
    helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["normal"]),
    helper.make_node("Relu", ["normal"], ["d"]),
    helper.make_node("GlobalAveragePool", ["d"], ["pooled"]),
    helper.make_node("Flatten", ["pooled"], ["flat"]),
    helper.make_node("MatMul", ["flat", "fc"], ["out"]),
]


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape) / 4 for name, shape in SHAPES.items()}
    arrays["variance"] = np.abs(arrays["variance"]) + 1
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        NODES,
        "double",
        [value("data", TensorProto.DOUBLE, (1, 3, 57, 41))],
        [value("out", TensorProto.DOUBLE, (1, 10))],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def in_single_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """ONNX Runtime computes no convolution in double precision."""
    single = copy.deepcopy(model)
    for tensor in single.graph.initializer:
        array = numpy_helper.to_array(tensor).astype("float32")
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*single.graph.input, *single.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    return single


def test_a_network_in_double_precision() -> None:
    model, image = network(), np.random.default_rng(1).standard_normal((1, 3, 57, 41))
    session = onnxruntime.InferenceSession(in_single_precision(model).SerializeToString())
    (expected,) = session.run(None, {"data": image.astype("float32")})
    mod, _ = tvm_neocpu.relay.frontend.from_onnx(model)
    module = tvm_neocpu.relay.build(mod, "llvm")["default"](tvm.cpu())
    module.set_input("data", image)
    module.run()
    found = module.get_output(0).numpy()
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_templates_compute_it_and_the_batch_norm_is_folded() -> None:
    cpu = parse_target().cpu
    mod, _ = tvm_neocpu.relay.frontend.from_onnx(network())
    folded = pipeline.fold(mod, cpu)
    graph = ExtractConvGraph(cpu)(folded)
    assert {workload.types for workload in graph.workloads} == {uniform("float64")}
    assert len(graph.convs) == 4
    plan = choose_plan(graph, cpu)
    altered = pipeline.apply_plan(folded, plan, cpu)
    computed = pipeline.compute_templates(altered, plan.by_layout(graph), cpu)
    functions = [f for f in computed.functions.values() if isinstance(f, tirx.PrimFunc)]
    assert sum(anchor_of(Schedule(func)) is not None for func in functions) == 4
    assert "batch_norm" not in str(folded) and isinstance(folded["main"], relax.Function)
