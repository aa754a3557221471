"""The noise power that changes of a network's inside make at its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from tvm_neocpu.quantizing.accuracy.compare import Powers
from tvm_neocpu.quantizing.accuracy.pieces import Pieces, Values, side_by_side
from tvm_neocpu.quantizing.onnx_runs import Sample

# The outputs of a network with one change, from the tensors of the exact run.
Change = Callable[[Pieces, Values], list[NDArray[Any]]]


def noise_powers(
    pieces: Pieces, samples: Sequence[Sample], changes: Mapping[str, Change]
) -> dict[str, float]:
    """Noise over signal of each change, at the output that suffers most."""
    found: dict[str, list[Powers]] = {name: [] for name in changes}
    for sample in samples:
        exact = pieces.exact(sample)
        wanted = pieces.outputs(exact)

        def add(name: str, exact: Values = exact, wanted: list[NDArray[Any]] = wanted) -> None:
            powers = found[name] = found[name] or [Powers() for _ in wanted]
            outputs = changes[name](pieces, exact)
            for each, one, other in zip(powers, wanted, outputs, strict=True):
                each.add(one, other)

        side_by_side(add, changes)
    return {name: max(each.error**2 for each in powers) for name, powers in found.items()}
