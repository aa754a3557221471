"""Scan of opset 8, whose tensors have a batch: a Scan of opset 9 for each image.

y, ys = Scan(lengths, h, xs)          h: (B, ..), xs: (B, T, ..)
  ->
for b in B:  y_b, ys_b = Scan(h[b], xs[b, :lengths[b]])
y = stack(y_b);  ys = stack(ys_b, filled up by zeros to T)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.nodes import body_of, constant_node, int_lists
from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames
from tvm_neocpu.frontend.unrolling.loop_form import scan_as_loop
from tvm_neocpu.frontend.unrolling.unroll_loop import unrolled_scan

# Scan has no batch from this opset on.
FIRST_WITHOUT_BATCH = 9


def scan_of_each_image(
    node: onnx.NodeProto,
    shapes: Sequence[Sequence[int] | None],
    lengths: npt.NDArray[np.int64] | None,
    opset: int,
    fresh: FreshNames,
) -> list[onnx.NodeProto]:
    """The nodes that compute a Scan of opset 8; ``shapes`` has one for each of its inputs.

    ``lengths``: the steps of each image; ``None`` for all steps. Raises UnsupportedOperatorError
    where a shape is not known, and for lengths that are not from 1 to the number of steps.
    """
    known = [shape for shape in shapes[1:] if shape is not None]
    scanned = int_lists(node)["num_scan_inputs"][0]
    if len(known) < len(shapes) - 1 or any(len(shape) < 2 for shape in known[-scanned:]):
        raise UnsupportedOperatorError("Scan of opset 8 needs inputs of known shapes")
    batch, steps = known[-1][:2]
    trips = [steps] * batch if lengths is None else [int(length) for length in lengths.ravel()]
    if len(trips) != batch or not all(0 < length <= steps for length in trips):
        raise UnsupportedOperatorError(
            f"Scan: sequence_lens must be {batch} numbers from 1 to {steps}, not {trips}"
        )
    image = _Images(node, known, scanned, opset, fresh)
    nodes = [made for at, length in enumerate(trips) for made in image.scan(at, length)]
    return nodes + [made for place in range(len(node.output)) for made in image.stack(place)]


class _Images:
    """The images of one Scan; names of their tensors begin with the Scan's."""

    def __init__(
        self,
        node: onnx.NodeProto,
        shapes: Sequence[Sequence[int]],
        scanned: int,
        opset: int,
        fresh: FreshNames,
    ) -> None:
        self.node, self.shapes, self.scanned, self.opset = node, shapes, scanned, opset
        self.fresh = fresh
        self.name = next(filter(None, node.output))
        self.carried = len(shapes) - scanned
        self.body = body_of(node)
        self.parts: list[list[str]] = [[] for _ in node.output]

    def scan(self, at: int, length: int) -> list[onnx.NodeProto]:
        """The nodes of one image."""
        prefix = f"{self.name}/image{at}"
        index = self.fresh(f"{prefix}/index")
        nodes, given = [constant_node(index, np.array(at, "int64"))], []
        for place, source in enumerate(self.node.input[1:]):
            part = self.fresh(f"{prefix}/in{place}")
            nodes.append(helper.make_node("Gather", [source, index], [part], axis=0))
            if place >= self.carried and length < self.shapes[-1][1]:
                whole, part = part, self.fresh(f"{part}/begin")
                cut = {"axes": [0], "starts": [0], "ends": [length]}
                nodes.append(helper.make_node("Slice", [whole], [part], **cut))
            given.append(part)
        outputs = enumerate(self.node.output)
        results = [self.fresh(f"{prefix}/out{place}") if name else "" for place, name in outputs]
        alone = helper.make_node(
            "Scan",
            given,
            results,
            body=self.body,
            num_scan_inputs=self.scanned,
            scan_input_directions=int_lists(self.node).get("directions", [0] * self.scanned),
        )
        inner = [shape[1:] for shape in self.shapes[: self.carried]]
        inner += [(length, *shape[2:]) for shape in self.shapes[self.carried :]]
        nodes += unrolled_scan(alone, inner, self.opset, self.fresh) or scan_as_loop(
            alone, self.fresh
        )
        for place, result in enumerate(results):
            if result:
                nodes += self._finished(place, result, length)
        return nodes

    def _finished(self, place: int, result: str, length: int) -> list[onnx.NodeProto]:
        """One image's result with a batch of its own, behind its last step zeros."""
        nodes, missing = [], self.shapes[-1][1] - length
        if place >= self.carried and missing:
            rank = len(self.body.output[place].type.tensor_type.shape.dim) + 1
            pads = [0] * rank + [missing] + [0] * (rank - 1)
            filled = self.fresh(f"{result}/filled")
            nodes.append(helper.make_node("Pad", [result], [filled], pads=pads))
            result = filled
        image = self.fresh(f"{result}/image")
        self.parts[place].append(image)
        return [*nodes, helper.make_node("Unsqueeze", [result], [image], axes=[0])]

    def stack(self, place: int) -> list[onnx.NodeProto]:
        """The images' results as one tensor."""
        name = self.node.output[place]
        return [helper.make_node("Concat", self.parts[place], [name], axis=0)] if name else []
