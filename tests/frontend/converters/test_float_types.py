"""Operators of float16 and float64: one model each, against ONNX's reference in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_node import node_model, ours, value_of

Array = NDArray[Any]
SHAPE = (2, 4, 6, 5)
WEIGHTS: dict[str, tuple[int, ...]] = {
    "c": (4,),
    "c2": (4,),
    "plane": (6, 5),
    "line": (5,),
    "w": (6, 4, 3, 3),
    "wg": (8, 1, 3, 2),
    "wt": (4, 3, 2, 2),
    "k": (6,),
    "slope": (4, 1, 1),
    "many": (4, 6, 5),
    "positive": (4,),
}
# Operator, other inputs, attributes.
NODES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("Relu", [], {}),
    ("LeakyRelu", [], {"alpha": 0.1}),
    ("PRelu", ["slope"], {}),
    ("PRelu", ["many"], {}),
    ("Elu", [], {"alpha": 0.7}),
    ("Celu", [], {"alpha": 0.7}),
    ("Selu", [], {}),
    ("Gelu", [], {}),
    ("Gelu", [], {"approximate": "tanh"}),
    ("HardSigmoid", [], {"alpha": 0.3}),
    ("HardSwish", [], {}),
    ("Mish", [], {}),
    ("Sigmoid", [], {}),
    ("Softplus", [], {}),
    ("Softsign", [], {}),
    ("Tanh", [], {}),
    ("Erf", [], {}),
    ("ThresholdedRelu", [], {"alpha": 0.5}),
    ("Shrink", [], {"lambd": 0.3, "bias": 0.1}),
    ("Softmax", [], {"axis": 1}),
    ("LogSoftmax", [], {"axis": 2}),
    ("Hardmax", [], {"axis": -1}),
    ("Conv", ["w", "k"], {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    ("Conv", ["wg"], {"group": 4, "dilations": [1, 2], "pads": [1, 0, 2, 1]}),
    ("ConvTranspose", ["wt"], {"strides": [2, 2]}),
    ("AveragePool", [], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    ("MaxPool", [], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("LpPool", [], {"kernel_shape": [2, 2], "p": 3}),
    ("GlobalAveragePool", [], {}),
    ("GlobalMaxPool", [], {}),
    ("BatchNormalization", ["c", "c2", "c", "positive"], {}),
    ("InstanceNormalization", ["c", "c2"], {}),
    ("LayerNormalization", ["plane", "plane"], {"axis": 2}),
    ("LayerNormalization", ["line"], {"axis": 1, "epsilon": 1e-2}),
    ("RMSNormalization", ["plane"], {"axis": 2}),
    ("GroupNormalization", ["c", "c2"], {"num_groups": 2}),
    ("LpNormalization", [], {"axis": 1, "p": 2}),
]


def _model(nodes: list[Any], inputs: dict[str, Array], constants: dict[str, Array]) -> Any:
    graph = helper.make_graph(
        [
            helper.make_node(op_type, ["x", *others], [f"y{place}"], f"{op_type}_{place}", **given)
            for place, (op_type, others, given) in enumerate(nodes)
        ],
        "g",
        [value_of(name, value) for name, value in inputs.items()],
        [helper.make_empty_tensor_value_info(f"y{place}") for place in range(len(nodes))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])


def _weights(dtype: str) -> dict[str, Array]:
    """Values that float16 has too."""
    rng = np.random.default_rng(1)
    values = {
        name: rng.standard_normal(shape).astype("float16").astype(dtype)
        for name, shape in WEIGHTS.items()
    }
    return {**values, "positive": np.abs(values["positive"]) + np.array(0.5, dtype)}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), ("float64", 1e-6)])
def test_results_have_the_type_and_the_precision(dtype: str, tolerance: float) -> None:
    data = np.random.default_rng(0).standard_normal(SHAPE).astype("float16")
    model = _model(NODES, {"x": data.astype(dtype)}, _weights(dtype))
    found = ours(model, [data.astype(dtype)])
    wide = _model(NODES, {"x": data.astype("float64")}, _weights("float64"))
    expected = ReferenceEvaluator(wide).run(None, {"x": data.astype("float64")})
    wrong = []
    for node, one, other in zip(NODES, found, expected, strict=True):
        assert (str(one.dtype), one.shape) == (dtype, other.shape), node
        error = np.abs(one.astype("float64") - other).max() / np.abs(other).max()
        if not error <= tolerance:
            wrong.append((node, error))
    assert wrong == [], str(wrong)


@pytest.mark.parametrize("op_type", ["Celu", "Elu", "Gelu", "HardSigmoid", "Selu", "Tanh"])
def test_small_results_in_float16_keep_their_digits(op_type: str) -> None:
    """exp(x) - 1 is no multiple of x in float16; what is computed in float32 is."""
    small = np.geomspace(1e-4, 1, 300)
    x = np.concatenate([-small, small, np.linspace(-4, 4, 101)]).astype("float16")
    (found,) = ours(node_model(op_type, [x], opset=20), [x])
    (exact,) = ReferenceEvaluator(node_model(op_type, [x.astype("float64")], opset=20)).run(
        None, {"x0": x.astype("float64")}
    )
    unit = np.spacing(np.abs(exact).astype("float16")).astype("float64")
    assert (np.abs(found - exact) / unit).max() < 16
