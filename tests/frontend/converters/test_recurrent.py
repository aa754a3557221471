"""LSTM, GRU and RNN in every attribute, against ONNX Runtime; layout 1 against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_text import Array, assert_like, check_like_peer, normal, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.recurrent import MAX_STEPS

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, INPUTS, HIDDEN = 3, 2, 5, 4
KINDS = pytest.mark.parametrize("kind", GATES)


def network(
    kind: str,
    *given: str,
    direction: str = "forward",
    steps: int = STEPS,
    lengths: list[int] | None = None,
    constant: bool = True,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A node with the optional inputs that are ``given``, and data for its inputs."""
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    is_batch_first = attributes.get("layout")
    state = (BATCH, directions, HIDDEN) if is_batch_first else (directions, BATCH, HIDDEN)
    shapes = {
        "W": (directions, rows, INPUTS),
        "R": (directions, rows, HIDDEN),
        "B": (directions, 2 * rows),
        "h": state,
        "c": state,
        "P": (directions, 3 * HIDDEN),
    }
    names = ["x", "W", "R", *(name if name in given else "" for name in "Blhc"), ""]
    if lengths is not None:
        names[4] = "l"
    names = names[: {"LSTM": 8}.get(kind, 6)]
    if "P" in given:
        names[7] = "P"
    values = {
        name: normal(*shapes[name], seed=seed)
        for seed, name in enumerate(name for name in names if name in shapes)
    }
    if lengths is not None:
        values["l"] = np.array(lengths, "int32")
    data = {"x": normal(*((BATCH, steps) if is_batch_first else (steps, BATCH)), INPUTS, seed=9)}
    fixed = values if constant else {}
    data |= {} if constant else values
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(
        kind, names, outputs, hidden_size=HIDDEN, direction=direction, **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in data.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in fixed.items()],
    )
    opsets = [helper.make_opsetid("", 14)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), data


def check(*arguments: Any, **named: Any) -> None:
    model, data = network(*arguments, **named)
    check_like_peer(model, **data)


@KINDS
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_every_direction_with_biases_and_states(kind: str, direction: str) -> None:
    check(kind, "B", "h", "c", direction=direction)


@KINDS
def test_weights_alone(kind: str) -> None:
    check(kind, direction="bidirectional")


@KINDS
def test_weights_and_states_that_are_inputs(kind: str) -> None:
    check(kind, "B", "h", "c", direction="bidirectional", constant=False)


@KINDS
def test_one_step(kind: str) -> None:
    check(kind, "B", "h", steps=1)


@KINDS
def test_clip(kind: str) -> None:
    check(kind, "B", "h", "c", clip=0.4)


@KINDS
def test_lengths_of_all_steps_are_like_none(kind: str) -> None:
    check(kind, "B", lengths=[STEPS] * BATCH)


@KINDS
@pytest.mark.parametrize("constant", [True, False])
def test_sequences_end_at_their_own_lengths(kind: str, constant: bool) -> None:
    """The reverse direction starts at the end of each sequence; what follows it is zero."""
    given = {"lengths": [STEPS, STEPS - 1], "direction": "bidirectional", "constant": constant}
    check(kind, "B", "h", "c", **given)


@pytest.mark.parametrize("constant", [True, False])
def test_lstm_with_peepholes(constant: bool) -> None:
    check("LSTM", "B", "h", "c", "P", direction="bidirectional", constant=constant)


def test_lstm_that_forgets_what_it_takes() -> None:
    check("LSTM", "B", "h", "c", input_forget=1)


@pytest.mark.parametrize("given", [(), ("B", "h")])
@pytest.mark.parametrize("constant", [True, False])
def test_gru_that_resets_after_its_matmul(given: tuple[str, ...], constant: bool) -> None:
    check("GRU", *given, linear_before_reset=1, direction="bidirectional", constant=constant)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("RNN", ["Relu", "Sigmoid"]),
        ("GRU", ["Sigmoid", "Relu", "Tanh", "Tanh"]),
        ("LSTM", ["Sigmoid", "Relu", "Tanh", "Tanh", "Sigmoid", "Relu"]),
    ],
)
def test_activations_of_each_direction(kind: str, names: list[str]) -> None:
    check(kind, "B", direction="bidirectional", activations=names)


# Each with the numbers that it takes: alphas, betas.
ACTIVATIONS = [
    (["Affine", "LeakyRelu"], [0.3, 0.2], [0.1]),
    (["ScaledTanh", "HardSigmoid"], [0.9, 0.3], [0.7, 0.4]),
    (["Elu", "ThresholdedRelu"], [0.5, 0.2], []),
    (["Softsign", "Softplus"], [], []),
]


@pytest.mark.parametrize(("names", "alphas", "betas"), ACTIVATIONS)
def test_activations_with_numbers_of_their_own(
    names: list[str], alphas: list[float], betas: list[float]
) -> None:
    numbers = {
        f"activation_{name}": values
        for name, values in (("alpha", alphas), ("beta", betas))
        if values
    }
    check("RNN", "B", "h", direction="bidirectional", activations=names, **numbers)


@KINDS
def test_batch_first(kind: str) -> None:
    """ONNX Runtime has no layout 1; ONNX's reference has it forward."""
    model, data = network(kind, "B", "h", "c", layout=1)
    assert_like(ours(model, data), ReferenceEvaluator(model).run(None, data))


@KINDS
def test_batch_first_is_batch_last_transposed(kind: str) -> None:
    first, data = network(kind, "B", direction="bidirectional", layout=1)
    last, _ = network(kind, "B", direction="bidirectional")
    sequence, *states = ours(last, {"x": data["x"].swapaxes(0, 1).copy()})
    expected = [sequence.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)]
    assert_like(ours(first, data), expected)


@KINDS
@pytest.mark.parametrize("outputs", [["Y"], ["", "Y_h"]])
def test_fewer_outputs(kind: str, outputs: list[str]) -> None:
    model, data = network(kind, "B")
    model.graph.node[0].output[:] = outputs
    del model.graph.output[:]
    name = outputs[-1]
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    check_like_peer(model, **data)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"activations": ["Sine"]}, "activation sine"),
        ({"activation_alpha": [0.5]}, "activation_alpha"),
        ({"steps": MAX_STEPS + 1}, "steps"),
    ],
)
def test_refused_in_one_line(named: dict[str, Any], message: str) -> None:
    model, data = network("RNN", **named)
    shapes = {name: value.shape for name, value in data.items()}
    with pytest.raises(UnsupportedOperatorError, match=message) as caught:
        relay.frontend.from_onnx(model, shapes)
    assert "\n" not in str(caught.value)


def test_all_matmuls_of_constant_weights_are_dense_layers() -> None:
    """Their right-hand sides are constants, which the dense template needs."""
    model, _ = network("GRU", "B", direction="bidirectional")
    mod, _ = relay.frontend.from_onnx(model)
    text = mod.script()
    matmuls = [line for line in text.splitlines() if "R.matmul" in line]
    assert len(matmuls) == 2 * (1 + 2 * STEPS)
    assert all('metadata["ir.GenericConst"]' in line for line in matmuls)
