"""LSTM, GRU and RNN in every attribute, against ONNX Runtime; layout 1 against ONNX's reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_node import value_of
from onnx_text import Array, assert_like, check_like_peer, normal, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.operators.new import recurrence
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.topi.recurrence.layer import Tile
from tvm_neocpu.topi.recurrence.tiles import Course, Sharing

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
    batch: int = BATCH,
    hidden: int = HIDDEN,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A node with the optional inputs that are ``given``, and data for its inputs."""
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * hidden
    is_batch_first = attributes.get("layout")
    state = (batch, directions, hidden) if is_batch_first else (directions, batch, hidden)
    shapes = {
        "W": (directions, rows, INPUTS),
        "R": (directions, rows, hidden),
        "B": (directions, 2 * rows),
        "h": state,
        "c": state,
        "P": (directions, 3 * hidden),
    }
    names = ["x", "W", "R", *(name if name in given else "" for name in "Blhc"), ""]
    if lengths is not None:
        names[4] = "l"
    names = names[: {"LSTM": 8}.get(kind, 6)]
    if "P" in given:
        names[7] = "P"
    values = {
        name: normal(*shapes[name], seed=seed) / np.float32(np.sqrt(hidden / HIDDEN))
        for seed, name in enumerate(name for name in names if name in shapes)
    }
    if lengths is not None:
        values["l"] = np.array(lengths, "int32")
    data = {"x": normal(*((batch, steps) if is_batch_first else (steps, batch)), INPUTS, seed=9)}
    fixed = values if constant else {}
    data |= {} if constant else values
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(
        kind, names, outputs, hidden_size=hidden, direction=direction, **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [value_of(name, value) for name, value in data.items()],
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


# Rows and units that fill no tile, in all ways to share the work between two cores: vectors of 4
# lanes take 17 units as three blocks of one vector and a rest, or one block of five vectors.
WAYS = [
    Course((Tile(4, 1, 2, 1),), Sharing.NOTHING),
    Course((Tile(4, 5, 2, 1),), Sharing.PIECES, groups=2),
    Course((Tile(8, 1, 3, 1),), Sharing.BLOCKS),
]


@pytest.mark.parametrize("kind", ["LSTM", "GRU, reset before", "GRU, reset after", "RNN"])
@pytest.mark.parametrize("way", WAYS, ids=[way.sharing.value for way in WAYS])
def test_any_way_to_share_the_work(kind: str, way: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind sums another number of its gates at a time."""
    kind, _, after = kind.partition(", reset ")
    phases = 2 if after == "before" else 1
    gates = {"LSTM": 2, "RNN": 1}.get(kind, 3 if after == "after" else 1)
    tiles = tuple(replace(way.tiles[0], gates=gates) for _ in range(phases))
    course = replace(way, tiles=tiles)
    monkeypatch.setattr(recurrence, "course_of", lambda layer, cpu: course)
    given = ("B", "h", "c", "P") if kind == "LSTM" else ("B", "h", "c")
    reset = {"linear_before_reset": int(after == "after")} if after else {}
    sizes = {"batch": 5, "hidden": 17, "steps": 5, "lengths": [5, 1, 4, 2, 3]}
    check(kind, *given, direction="bidirectional", **sizes, **reset)


@KINDS
@pytest.mark.parametrize("hidden", [1, 100])
def test_hidden_units_of_any_number(kind: str, hidden: int) -> None:
    check(kind, "B", "h", hidden=hidden, batch=1, steps=7)


@KINDS
def test_a_sequence_of_no_steps_ends_in_zeros(kind: str) -> None:
    check(kind, "B", "h", "c", lengths=[0, 2], direction="bidirectional")


def test_double_precision_is_kept() -> None:
    """ONNX Runtime's LSTM has no float64 kernel; ONNX's reference has no sequences' ends."""
    model, data = network("LSTM", "B", "h", "c", "P")
    double = wider(model)
    data = {name: value.astype("float64") for name, value in data.items()}
    found, expected = ours(double, data), ReferenceEvaluator(double).run(None, data)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == np.float64
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


def wider(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in float64."""
    double = onnx.ModelProto()
    double.CopyFrom(model)
    for value in (*double.graph.input, *double.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for weight in double.graph.initializer:
        values = numpy_helper.to_array(weight).astype("float64")
        weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    return double


def test_a_layer_of_many_steps() -> None:
    """As many bindings as one of few steps: 5,000 would take a build minutes."""
    model, data = network("GRU", "B", steps=5000, batch=1)
    check_like_peer(model, **data)


@KINDS
@pytest.mark.parametrize("outputs", [["Y"], ["", "Y_h"]])
def test_fewer_outputs(kind: str, outputs: list[str]) -> None:
    model, data = network(kind, "B")
    model.graph.node[0].output[:] = outputs
    del model.graph.output[:]
    name = outputs[-1]
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    check_like_peer(model, **data)


@KINDS
def test_numbers_that_no_activation_takes_are_ignored(kind: str) -> None:
    """ONNX does not forbid them, and ONNX Runtime takes what the activations need, in order."""
    check(kind, "B", activation_alpha=[0.5, 0.25], activation_beta=[0.75])


def test_numbers_behind_those_that_are_taken_are_ignored() -> None:
    names = ["LeakyRelu", "Tanh"]
    check("RNN", "B", direction="bidirectional", activations=names, activation_alpha=[0.3, 0.9])


def test_refused_in_one_line() -> None:
    model, data = network("RNN", activations=["Sine"])
    shapes = {name: value.shape for name, value in data.items()}
    with pytest.raises(UnsupportedOperatorError, match="activation sine") as caught:
        relay.frontend.from_onnx(model, shapes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("steps", [1, 40])
def test_a_layer_is_one_dense_layer_and_one_loop(steps: int) -> None:
    """However many steps it has; W of both directions is one constant, which a template needs."""
    model, _ = network("GRU", "B", direction="bidirectional", steps=steps)
    mod, _ = relay.frontend.from_onnx(model)
    text = mod.script()
    matmuls = [line for line in text.splitlines() if "R.matmul" in line]
    assert len(matmuls) == 1
    assert 'metadata["ir.GenericConst"]' in matmuls[0]
    assert text.count("neocpu.recurrence") == 1


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@KINDS
def test_its_products_are_counted_and_priced(kind: str, direction: str) -> None:
    """The projection is in the plan, the products with R are beside it."""
    cpu = Cpu("haswell", AVX2, cores=2)
    model, _ = network(kind, "B", direction=direction, steps=40)
    mod, _ = relay.frontend.from_onnx(model)
    coverage = FindFallbacks(cpu)(fold(mod, cpu))
    rows = 40 * BATCH * GATES[kind] * HIDDEN * (2 if direction == "bidirectional" else 1)
    (layer,) = coverage.fixed
    assert (layer.operator, layer.flops) == (kind, 2 * rows * HIDDEN)
    assert (coverage.planned_flops, coverage.fallbacks) == (2 * rows * INPUTS, ())
    assert 0 < layer.seconds < 1
