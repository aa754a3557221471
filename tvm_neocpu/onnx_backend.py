"""The standard ``onnx.backend`` interface: any script that takes a backend takes this module.

import onnx, tvm_neocpu.onnx_backend as backend

scores = backend.run_model(onnx.load("resnet50.onnx"), [image])[0]
rep = backend.prepare(model)          # compiles once, where the file gives every shape
scores = rep.run({"data": image}).scores
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tvm_neocpu import relay
from tvm_neocpu.core.errors import (
    NeoCpuError,
    OpenShapeError,
    ShapeError,
    UnsupportedOperatorError,
    first_line,
)
from tvm_neocpu.frontend.reading.onnx_model import check_model, declared_shape, graph_inputs
from tvm_neocpu.frontend.reading.structural_inputs import structural_inputs
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK
from tvm_neocpu.runtime.calls.graph_module import GraphModule

Array = NDArray[Any]
# Shapes of all inputs; bytes of those whose values decide shapes.
Key = tuple[tuple[tuple[int, ...], ...], tuple[bytes, ...]]

# Compiled modules that one model keeps; the one that was used longest ago goes first.
MAX_COMPILED = 32


class NeoCpuBackendRep(BackendRep):
    """A model ready to run. Any number of threads may call it.

    Compiles at the first run with inputs of other shapes, and keeps what it compiled. An input
    whose *values* decide shapes (Reshape's ``shape``, Resize's ``scales``) counts as a shape. An
    input without elements has one value only, and is compiled in too.
    """

    def __init__(self, model: onnx.ModelProto, options: Mapping[str, Any]) -> None:
        self._model = model
        self._options = options
        self._inputs = graph_inputs(model.graph)
        _check_tensors("input", self._inputs)
        _check_tensors("output", model.graph.output)
        self._structural = structural_inputs(model.graph)
        self._compiled: OrderedDict[Key, GraphModule] = OrderedDict()
        outputs = [value.name for value in model.graph.output]
        self._results = namedtupledict("Outputs", outputs)
        shapes = {value.name: declared_shape(value) for value in self._inputs}
        if not self._structural and all(
            dims is not None and None not in dims for dims in shapes.values()
        ):
            self._module({name: np.empty(dims) for name, dims in shapes.items()})

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs as a named tuple of arrays, by name, number or attribute.

        ``inputs`` is a sequence in the order of the graph's inputs, a dictionary by name, or one
        array. Raises NeoCpuError.
        """
        arrays = self._arrays(inputs)
        module = self._module(arrays)
        with module.lock, _one_line("run"):
            for name, array in arrays.items():
                if not self._is_compiled_in(name, array):
                    module.set_input(name, array)
            module.run()
            outputs = [module.get_output(place) for place in range(module.get_num_outputs())]
        return self._results(*(tensor.numpy() for tensor in outputs))

    def _is_compiled_in(self, name: str, array: Array) -> bool:
        return name in self._structural or not array.size

    def _arrays(self, inputs: Any) -> dict[str, Array]:
        names = [value.name for value in self._inputs]
        if isinstance(inputs, Mapping):
            missing = [name for name in names if name not in inputs]
            if missing:
                raise ShapeError(f"no value for input {missing[0]!r}")
            inputs = [inputs[name] for name in names]
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if len(inputs) != len(names):
            raise ShapeError(f"{len(inputs)} inputs for {len(names)}: {', '.join(names)}")
        return {name: np.asarray(value) for name, value in zip(names, inputs, strict=True)}

    def _module(self, arrays: Mapping[str, Array]) -> GraphModule:
        values = {
            name: array for name, array in arrays.items() if self._is_compiled_in(name, array)
        }
        key = (
            tuple(array.shape for array in arrays.values()),
            tuple(array.tobytes() for array in values.values()),
        )
        with PYTHON_LOCK:
            if key not in self._compiled:
                shapes = {name: array.shape for name, array in arrays.items() if name not in values}
                self._compiled[key] = self._compile(shapes, values)
            self._compiled.move_to_end(key)
            if len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
            return self._compiled[key]

    def _compile(
        self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]
    ) -> GraphModule:
        mod, params = relay.frontend.from_onnx(_with_constants(self._model, values), shapes)
        with _one_line("compile"):
            return relay.build(mod, params=params, **{"cache": False, **self._options}).create(
                tvm.cpu()
            )


class NeoCpuBackend(Backend):
    """ONNX's interface to this package; its methods are this module's functions too."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether the model imports; what only its inputs' shapes decide counts as compatible."""
        if not cls.supports_device(device):
            return False
        try:
            if not structural_inputs(check_model(model).graph):
                relay.frontend.from_onnx(model)
        except OpenShapeError:
            return True
        except NeoCpuError:
            return False
        return True

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", **options: Any
    ) -> NeoCpuBackendRep:
        """Compile the model; ``options`` are those of ``relay.build``, such as ``target``.

        Raises NeoCpuError with one line.
        """
        if not cls.supports_device(device):
            raise UnsupportedOperatorError(f"there is no device {device!r}; this one is for CPUs")
        return NeoCpuBackendRep(check_model(model), options)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[Any, ...]:
        """Compile and run once."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Run one node; ``opset_version`` defaults to the newest that onnx knows.

        ``outputs_info`` is not needed: types and shapes are inferred.
        """
        opset = options.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        arrays = [np.asarray(value) for value in inputs]
        if len(arrays) != len(names):
            raise ShapeError(f"{len(arrays)} inputs for {len(names)}: {', '.join(names)}")
        graph = helper.make_graph(
            [node],
            "node",
            [_value(name, array) for name, array in zip(names, arrays, strict=True)],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        return cls.run_model(model, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU, with or without a number."""
        return device.split(":")[0] == "CPU"


@contextlib.contextmanager
def _one_line(doing: str) -> Iterator[None]:
    """TVM may raise anything at all; what is raised here is of this package and has one line."""
    try:
        yield
    except NeoCpuError:
        raise
    except Exception as error:
        raise UnsupportedOperatorError(f"cannot {doing} the model: {first_line(error)}") from error


def _check_tensors(what: str, values: Iterable[onnx.ValueInfoProto]) -> None:
    for value in values:
        kind = value.type.WhichOneof("value") or "tensor_type"
        if kind != "tensor_type":
            kind = kind.removesuffix("_type")
            raise UnsupportedOperatorError(f"{what} {value.name!r} is no tensor but of kind {kind}")


def _with_constants(model: onnx.ModelProto, values: Mapping[str, Array]) -> onnx.ModelProto:
    if not values:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name, value in values.items():
        copy.graph.initializer.append(numpy_helper.from_array(value, name))
    return copy


def _value(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


is_compatible = NeoCpuBackend.is_compatible
prepare = NeoCpuBackend.prepare
run_model = NeoCpuBackend.run_model
run_node = NeoCpuBackend.run_node
supports_device = NeoCpuBackend.supports_device
