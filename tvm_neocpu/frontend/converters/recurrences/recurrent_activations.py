"""The activations that a recurrent node names, with their alpha and beta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.topi.recurrence.layer import Activation


def activations_of(
    node: Node, defaults: Sequence[str], directions: int
) -> tuple[tuple[Activation, ...], ...]:
    """The activations of each direction; ``defaults`` are the names where the node has none.

    ``activation_alpha`` and ``activation_beta`` have a value for each activation that takes one, in
    the order of the activations; ONNX Runtime ignores what is left over, and so do we. Raises
    UnsupportedOperatorError.
    """
    names = [name.lower() for name in node.attributes.get("activations") or defaults * directions]
    count = len(defaults)
    # The schema's default of RNN has two names for one direction too.
    names = names[: count * directions]
    if len(names) < count * directions:
        raise UnsupportedOperatorError(f"activations has {len(names)} names")
    unknown = sorted(set(names) - set(_NUMBERS))
    if unknown:
        raise UnsupportedOperatorError(f"activation {', '.join(unknown)} is not supported")
    alphas, betas = (
        list(node.attributes.get(f"activation_{what}") or ()) for what in ("alpha", "beta")
    )
    found = [_with_numbers(name, alphas, betas) for name in names]
    return tuple(tuple(found[place * count :][:count]) for place in range(directions))


def _with_numbers(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """The activation with its own numbers, taken from the front of the lists."""
    given = [
        values.pop(0) if values else default
        for values, default in zip((alphas, betas), _NUMBERS[name], strict=False)
    ]
    return Activation(name, *given)


# By the name in lower case: the defaults of what it takes of alpha and beta.
_NUMBERS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "affine": (1.0, 0.0),
        "elu": (1.0,),
        "hardsigmoid": (0.2, 0.5),
        "leakyrelu": (0.01,),
        "relu": (),
        "scaledtanh": (1.0, 1.0),
        "sigmoid": (),
        "softplus": (),
        "softsign": (),
        "tanh": (),
        "thresholdedrelu": (1.0,),
    }
)
