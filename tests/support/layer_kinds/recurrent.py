"""Recurrent layers over the columns or the rows of an image."""

from __future__ import annotations

from random_onnx import Choices, RandomNet, Skip

from layer_kinds.layer import Write

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Functions of one step, the recurrent inputs' first; each with its alpha and beta, if it has any.
FUNCTIONS: dict[str, tuple[float, ...]] = {
    "Sigmoid": (),
    "Tanh": (),
    "Relu": (),
    "HardSigmoid": (0.3, 0.4),
    "LeakyRelu": (0.2,),
    "Affine": (0.5, 0.1),
    "Elu": (0.7,),
    "ScaledTanh": (1.2, 0.8),
    "Softsign": (),
    "Softplus": (),
    "ThresholdedRelu": (0.1,),
}
FUNCTIONS_EACH = {"LSTM": 3, "GRU": 2, "RNN": 1}


def recurrent(kind: str) -> Write:
    def write(net: RandomNet, pick: Choices) -> str:
        rows, batch, image = _steps(net, pick)
        steps, _, width = net.shape_of(rows)
        hidden = pick(8, 5, 1, 16, 17)
        direction = pick("forward", "reverse", "bidirectional")
        ways = 2 if direction == "bidirectional" else 1
        gates = GATES[kind] * hidden
        weights = [net.weight(ways, gates, width), net.weight(ways, gates, hidden)]
        scale = net.constant(width**-0.5)
        rows = net("Mul", rows, scale) if pick(True, False) else rows
        bias = net.weight(ways, 2 * gates) if pick(True, False) else ""
        lengths = ""
        if pick(False, False, True):
            counts = [pick(steps, max(1, steps - 2), 1) for _ in range(batch)]
            lengths = net.constant(counts, "int32")
        states = [_state(net, pick, ways, batch, hidden)]
        if kind == "LSTM":
            states.append(_state(net, pick, ways, batch, hidden))
            states.append(net.weight(ways, 3 * hidden) if pick(False, True) else "")
        attributes = _attributes(pick, kind, ways)
        inputs = [rows, *weights, bias, lengths, *states]
        while not inputs[-1]:
            inputs.pop()
        outputs = net.several(
            3 if kind == "LSTM" else 2,
            kind,
            *inputs,
            hidden_size=hidden,
            direction=direction,
            **attributes,
        )
        wanted = pick(*range(len(outputs)))
        # What nobody reads is left out, as exporters leave it out.
        net.nodes[-1].output[:] = [
            name if place == wanted or pick(True, False) else ""
            for place, name in enumerate(outputs)
        ]
        return _as_map(net, pick, outputs[wanted], image)

    return write


def _steps(net: RandomNet, pick: Choices) -> tuple[str, int, tuple[int, int]]:
    """The map as (steps, batch, features), and its batch, rows and columns."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    form = pick("columns", "pixels", "rows of a batch", "channels")
    if form == "columns":
        rows = net("Transpose", x, perm=[3, 0, 1, 2])
        rows = net("Reshape", rows, net.integers(width, batch, channels * height))
    elif form == "pixels":
        rows = net("Reshape", x, net.integers(batch, channels, height * width))
        rows = net("Transpose", rows, perm=[2, 0, 1])
    elif form == "rows of a batch":
        rows = net("Transpose", x, perm=[3, 0, 2, 1])
        rows = net("Reshape", rows, net.integers(width, batch * height, channels))
    else:
        rows = net("Transpose", x, perm=[1, 0, 2, 3])
        rows = net("Reshape", rows, net.integers(channels, batch, height * width))
    if net.shape_of(rows)[2] > 400:
        raise Skip("a large weight")
    return rows, net.shape_of(rows)[1], (height, width)


def _state(net: RandomNet, pick: Choices, ways: int, batch: int, hidden: int) -> str:
    """A first state: none, zeros, values, or a computed one."""
    form = pick("none", "values", "zeros", "computed")
    if form == "none":
        return ""
    if form == "zeros":
        return net.uniform(0, 0, ways, batch, hidden)
    values = net.uniform(-0.5, 0.5, ways, batch, hidden)
    if form == "values":
        return values
    mean = net("ReduceMean", net.maps[-1], keepdims=0)
    return net("Add", values, net("Mul", mean, net.constant(0.1)))


def _attributes(pick: Choices, kind: str, ways: int) -> dict[str, object]:
    attributes: dict[str, object] = {}
    if pick(False, False, True):
        names = [pick(*FUNCTIONS) for _ in range(FUNCTIONS_EACH[kind])] * ways
        attributes["activations"] = names
        alphas = [FUNCTIONS[name][0] for name in names if FUNCTIONS[name]]
        betas = [FUNCTIONS[name][1] for name in names if len(FUNCTIONS[name]) > 1]
        attributes |= {"activation_alpha": alphas} if alphas else {}
        attributes |= {"activation_beta": betas} if betas else {}
    if pick(False, False, True):
        attributes["clip"] = pick(0.5, 3.0)
    if kind == "GRU":
        attributes["linear_before_reset"] = pick(0, 1)
    if kind == "LSTM" and pick(False, False, True):
        attributes["input_forget"] = 1
    return attributes


def _as_map(net: RandomNet, pick: Choices, out: str, image: tuple[int, int]) -> str:
    """(steps, ways, batch, hidden) as an image of the batch; states stay of rank 3 or get 4."""
    if len(net.shape_of(out)) == 3:
        if pick(True, False):
            return out
        return net("Unsqueeze", net("Transpose", out, perm=[1, 0, 2]), net.integers(2))
    steps, ways, batch, hidden = net.shape_of(out)
    form = pick("image", "channels", "sum")
    if form == "sum":
        return net("ReduceSum", out, net.integers(1), keepdims=0)
    turned = net("Transpose", out, perm=[2, 1, 3, 0])
    if form == "channels":
        return turned
    if steps != image[0] * image[1]:
        return net("Reshape", turned, net.integers(batch, ways * hidden, 1, steps))
    return net("Reshape", turned, net.integers(batch, ways * hidden, *image))


KINDS: dict[str, Write] = {
    "lstm": recurrent("LSTM"),
    "gru": recurrent("GRU"),
    "rnn": recurrent("RNN"),
}
