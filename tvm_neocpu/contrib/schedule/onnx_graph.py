"""An ONNX model as a ScheduleGraph: its shapes, bytes, multiply-adds and windows.

What computes shapes or constants is folded. A batch norm behind a convolution that nobody else
reads is part of it, as in a compiled network; identities are the tensor that they pass on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod

import onnx

from tvm_neocpu.contrib.schedule.operators import BOUNDARY, OPERATORS, Shape, window_of
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.frontend.nodes import opset_of
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.frontend.shapes.fold_shapes import fold_shapes
from tvm_neocpu.frontend.shapes.tensor_shapes import shapes_of
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode, Window

_PASSED_ON = frozenset({"Identity", "Dropout"})


def schedule_graph(
    model: onnx.ModelProto, item_bytes: int = 4, shapes: Mapping[str, Sequence[int]] | None = None
) -> ScheduleGraph:
    """The model's graph; every element takes ``item_bytes``. Weights need no values.

    Raises ShapeError where a shape is open, ModelFileError where onnx finds the model broken.
    """
    inputs = resolve_shapes(model.graph, shapes)
    graph = fold_shapes(model, inputs, opset_of(model), keep_weights=True)
    return _Reader(graph.node, shapes_of(model, graph, inputs), item_bytes).graph(
        inputs, [value.name for value in graph.output]
    )


class _Reader:
    def __init__(
        self, nodes: Iterable[onnx.NodeProto], shapes: Mapping[str, Shape], item_bytes: int
    ) -> None:
        self._nodes = list(nodes)
        self._shapes = shapes
        self._item = item_bytes
        self._readers = Counter(name for node in self._nodes for name in node.input)
        # A tensor to the id of the node that makes it; weights and constants have none.
        self._makers: dict[str, str] = {}
        self._made: dict[str, ScheduleNode] = {}
        self._edges: list[tuple[str, str]] = []

    def graph(self, inputs: Mapping[str, Shape], outputs: Sequence[str]) -> ScheduleGraph:
        for name in inputs:
            self._add(name, self._node(name, f"input {name}", OpKind.INPUT, [name]), [])
        for node in self._nodes:
            sources = dict.fromkeys(
                self._makers[name] for name in node.input if name in self._makers
            )
            if sources:
                self._read(node, list(sources))
        known = frozenset(self._makers[name] for name in outputs if name in self._makers)
        return ScheduleGraph(tuple(self._made.values()), tuple(self._edges), known)

    def _read(self, node: onnx.NodeProto, sources: list[str]) -> None:
        if node.op_type in _PASSED_ON or self._is_folded(node, sources):
            self._makers[node.output[0]] = sources[0]
            return
        operator = OPERATORS.get(node.op_type, BOUNDARY)
        weights = [name for name in node.input if name and name not in self._makers]
        known = [self._shapes[name] for name in weights if name in self._shapes]
        if operator.kind is OpKind.CONV and (not known or len(sources) > 1):
            operator = BOUNDARY  # filters that are computed: no weights to keep
        outputs = [name for name in node.output if name]
        source = self._shape(next(name for name in node.input if name in self._makers))
        made = self._shape(outputs[0], node)
        weight = max(known, key=prod, default=None)
        is_conv = operator.kind is OpKind.CONV
        found = self._node(
            node.name or outputs[0],
            node.op_type,
            operator.kind,
            outputs,
            macs=_macs(node, weight, source, made) if is_conv else 0,
            weight_bytes=sum(map(prod, known)) * self._item,
            in_channels=source[1] if len(source) > 1 else prod(source),
            groups=next((a.i for a in node.attribute if a.name == "group"), 1),
            window=window_of(node, weight, source, made),
            is_global=operator.is_global or _mixes_rows(node, made),
        )
        for name in outputs:
            self._makers[name] = found.id
        self._add(outputs[0], found, sources)

    def _is_folded(self, node: onnx.NodeProto, sources: Sequence[str]) -> bool:
        """Whether it is a batch norm whose convolution nothing else reads."""
        return (
            node.op_type == "BatchNormalization"
            and self._made[sources[0]].kind is OpKind.CONV
            and self._readers[node.input[0]] == 1
        )

    def _node(
        self,
        name: str,
        what: str,
        kind: OpKind,
        outputs: Sequence[str],
        window: Window | None = None,
        is_global: bool = False,
        **figures: int,
    ) -> ScheduleNode:
        unique = name if name not in self._made else f"{name} #{len(self._made)}"
        elements = sum(prod(self._shape(output)) for output in outputs)
        return ScheduleNode(
            unique,
            f"{what} {'x'.join(map(str, self._shape(outputs[0])))}",
            kind,
            elements * self._item,
            shape=_planes(self._shape(outputs[0])),
            window=window or Window(),
            is_global=is_global,
            **figures,
        )

    def _add(self, tensor: str, node: ScheduleNode, sources: Sequence[str]) -> None:
        self._makers[tensor] = node.id
        self._made[node.id] = node
        self._edges += [(source, node.id) for source in sources]

    def _shape(self, name: str, maker: onnx.NodeProto | None = None) -> Shape:
        if name in self._shapes:
            return self._shapes[name]
        by = "" if maker is None else f", which {maker.domain or 'ONNX'}'s {maker.op_type} makes,"
        raise ShapeError(f"the shape of tensor {name!r}{by} is not known before the network runs")


def _planes(shape: Shape) -> tuple[int, int, int]:
    """(channels, height, width), every extent at least 1; other ranks have one row."""
    if len(shape) == 4:
        batch, channels, height, width = (max(1, extent) for extent in shape)
        return channels, height, batch * width
    channels = max(1, shape[1]) if len(shape) > 1 else 1
    return channels, 1, max(1, prod(shape) // channels)


def _macs(node: onnx.NodeProto, weight: Shape | None, source: Shape, made: Shape) -> int:
    if weight is None:
        return 0
    if node.op_type == "ConvTranspose":
        return prod(source) * prod(weight[1:])
    if len(weight) > 2:
        return prod(made) * prod(weight[1:])
    return prod(made) * prod(weight) // max(1, made[-1])


def _mixes_rows(node: onnx.NodeProto, made: Shape) -> bool:
    """Whether a concat or split is along anything but channels."""
    if node.op_type not in ("Concat", "Split"):
        return False
    axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
    return axis % max(1, len(made)) != 1
