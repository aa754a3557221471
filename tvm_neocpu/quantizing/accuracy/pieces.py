"""An fp32 network cut into pieces, so that a change of one tensor computes only what follows it.

Noise is measured by some hundred runs that differ in one weight or one activation each. A run of
the whole network would compute again what comes before the change, and a network whose weights may
be replaced is slower than one with constant weights (ResNet-18 on Zen 3: 86 against 21 ms of CPU).

    data -> [conv, relu] -> x -> [conv, add] -> y -> [dense] -> scores
                                  w changed: a twin of this piece with w as an input, then [dense]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tvm_neocpu.core.machine.cores import allowed_cpus
from tvm_neocpu.frontend.nodes import nested_graphs
from tvm_neocpu.quantizing.onnx_graphs import output_names, showing, weights_of
from tvm_neocpu.quantizing.onnx_runs import Run, Sample, runner

Values = Mapping[str, NDArray[Any]]
# What a tensor becomes wherever it is made.
Rounding = Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]]
NOTHING: Values = MappingProxyType({})
NO_ROUNDING: Rounding = MappingProxyType({})
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class _Piece:
    """Operations that run together: ``reads`` and ``makes`` are tensors at its borders.

    ``operands`` are those of its constants that may be replaced; ``layers`` may read data that
    nobody else reads.
    """

    nodes: list[onnx.NodeProto]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    operands: tuple[str, ...]
    layers: tuple[str, ...]
    model_of: Callable[[_Piece, bool], onnx.ModelProto] = field(repr=False)

    @cached_property
    def run(self) -> Run:
        return runner(self.model_of(self, False), threads=1)

    @cached_property
    def twin(self) -> Run:
        """Its operands and its layers' data are inputs."""
        return runner(self.model_of(self, True), threads=1)


class Pieces:
    """``model`` cut at ``cuts`` and at what the ``layers`` (names of operations) read.

    ``operands`` are constants that may be replaced. Pieces run on one thread each:
    :func:`side_by_side` runs several changes at once.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        cuts: Collection[str],
        operands: Collection[str],
        layers: Collection[str],
        sample: Sample,
    ) -> None:
        self._model, self._layers = model, frozenset(layers)
        self._constants = weights_of(model.graph)
        self.operands = {
            name: numpy_helper.to_array(self._constants[name]) for name in sorted(operands)
        }
        data = {node.input[0] for node in model.graph.node if node.name in self._layers}
        groups = _groups(model.graph, {*cuts, *data})
        outputs = output_names(model)
        made = [{name for node in group for name in node.output} for group in groups]
        read = [_read_by(group) for group in groups]
        wanted = {*outputs, *data, *cuts}.union(*(r - m for r, m in zip(read, made, strict=True)))
        fed = {value.name for value in model.graph.input}
        known = fed.union(*made) - self._constants.keys()
        self._pieces = [
            _Piece(
                group,
                tuple(sorted((reads - makes) & known)),
                tuple(sorted(makes & wanted)),
                tuple(sorted(reads & self.operands.keys())),
                tuple(node.name for node in group if node.name in self._layers),
                self._model_of,
            )
            for group, makes, reads in zip(groups, made, read, strict=True)
            if makes & wanted
        ]
        self._outputs = outputs
        self._infos = _infos(model, [name for p in self._pieces for name in p.makes], sample)

    def exact(self, sample: Sample) -> Values:
        """The tensors at all borders."""
        values = dict(sample)
        for piece in self._pieces:
            values.update(zip(piece.makes, piece.run(values), strict=True))
        return values

    def outputs(self, values: Values) -> list[NDArray[Any]]:
        return [values[name] for name in self._outputs]

    def changed(
        self,
        exact: Values,
        rounding: Rounding = NO_ROUNDING,
        operands: Values = NOTHING,
        data: Values = NOTHING,
    ) -> list[NDArray[Any]]:
        """The outputs with some tensors rounded, other operands, or other data for some layers."""
        values = dict(exact)
        values |= {name: rounds(exact[name]) for name, rounds in rounding.items()}
        dirty = set(rounding)
        for piece in self._pieces:
            replaced = any(name in operands for name in piece.operands)
            replaced |= any(name in data for name in piece.layers)
            if not replaced and dirty.isdisjoint(piece.reads):
                continue
            run = piece.run
            fed = values
            if replaced:
                run, fed = piece.twin, self._fed(piece, values, operands, data)
            for name, value in zip(piece.makes, run(fed), strict=True):
                values[name] = rounding[name](value) if name in rounding else value
            dirty.update(piece.makes)
        return self.outputs(values)

    def _fed(self, piece: _Piece, values: Values, operands: Values, data: Values) -> Values:
        """What a twin reads."""
        own = {name: operands.get(name, self.operands[name]) for name in piece.operands}
        for node in piece.nodes:
            if node.name in self._layers:
                own[_data_of(node.name)] = data.get(node.name, values[node.input[0]])
        return {**values, **own}

    def _model_of(self, piece: _Piece, is_twin: bool) -> onnx.ModelProto:
        """A piece as a network of its own."""
        whole, inputs = self._model.graph, {value.name: value for value in self._model.graph.input}
        nodes, fed = [], [inputs.get(name) or self._infos[name] for name in piece.reads]
        for node in piece.nodes:
            own = onnx.NodeProto()
            own.CopyFrom(node)
            if is_twin and node.name in self._layers:
                source, own.input[0] = node.input[0], _data_of(node.name)
                info = onnx.ValueInfoProto()
                info.CopyFrom(inputs.get(source) or self._infos[source])
                info.name = own.input[0]
                fed.append(info)
            nodes.append(own)
        replaced = piece.operands if is_twin else ()
        for name in replaced:
            tensor = self._constants[name]
            fed.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
        read = _read_by(piece.nodes) - {*replaced}
        kept = [tensor for tensor in whole.initializer if tensor.name in read]
        made = [self._infos[name] for name in piece.makes]
        graph = helper.make_graph(nodes, "piece", fed, made, kept)
        opsets = self._model.opset_import
        return helper.make_model(graph, opset_imports=opsets, ir_version=self._model.ir_version)


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``work`` of every item, in order, on as many threads as the process has CPUs."""
    with ThreadPoolExecutor(len(allowed_cpus())) as pool:
        return list(pool.map(work, items))


def _data_of(layer: str) -> str:
    return f"{layer}.data"


def _groups(graph: onnx.GraphProto, cuts: Collection[str]) -> list[list[onnx.NodeProto]]:
    """The operations in groups that no cut runs through, in an order that computes them.

    Operations at the same number of cuts behind the inputs are one group where they are connected.
    """
    makers: dict[str, int] = {}
    levels: list[int] = []
    leaders: list[int] = []

    def leader(place: int) -> int:
        while leaders[place] != place:
            place = leaders[place]
        return place

    for place, node in enumerate(graph.node):
        sources = [name for name in _read_by([node]) if name in makers]
        levels.append(max((levels[makers[s]] + (s in cuts) for s in sources), default=0))
        leaders.append(place)
        for source in sources:
            if levels[makers[source]] == levels[place] and source not in cuts:
                leaders[leader(place)] = leader(makers[source])
        makers.update(dict.fromkeys(node.output, place))
    groups: dict[tuple[int, int], list[onnx.NodeProto]] = {}
    for place, node in enumerate(graph.node):
        groups.setdefault((levels[place], leader(place)), []).append(node)
    return [groups[key] for key in sorted(groups)]


def _read_by(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """What operations read, their branches' operations too."""
    found = set()
    for node in nodes:
        found |= {name for name in node.input if name}
        for graph in nested_graphs(node):
            found |= _read_by(graph.node) | {value.name for value in graph.output}
    return found


def _infos(
    model: onnx.ModelProto, tensors: Sequence[str], sample: Sample
) -> dict[str, onnx.ValueInfoProto]:
    """The types of tensors; those that inference does not know are looked at in a run."""
    known = {value.name: value for value in [*model.graph.output, *model.graph.value_info]}
    found = {name: known[name] for name in tensors if name in known}
    missing = [name for name in tensors if name not in found]
    if missing:
        for name, value in zip(missing, runner(showing(model, missing))(sample), strict=True):
            kind = helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype)
            found[name] = helper.make_tensor_value_info(name, kind, None)
    return found
