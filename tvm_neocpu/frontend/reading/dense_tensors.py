"""Sparse weights and constants as dense ones: no operator here takes a sparse one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.checks.limits import check_elements, check_weight_bytes
from tvm_neocpu.frontend.nodes import all_graphs, all_nodes


def with_dense_tensors(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model itself, or a copy without sparse tensors.

    ``name`` is what an error calls the model. Raises ModelFileError where values and indices do not
    fit the shape, ShapeError or ModelFileError where dense tensors would be too large.
    """
    sparse = [tensor for graph in all_graphs(model.graph) for tensor in graph.sparse_initializer]
    sparse += [attribute.sparse_tensor for attribute in _sparse_constants(model)]
    if not sparse:
        return model
    for each in sparse:
        check_elements(f"sparse tensor {each.values.name!r} of {name}", each.dims)
    sizes = (math.prod(each.dims) * _dtype(each).itemsize for each in sparse)
    check_weight_bytes(name, sum(sizes))
    dense = onnx.ModelProto()
    dense.CopyFrom(model)
    for graph in all_graphs(dense.graph):
        graph.initializer.extend(_dense(each, name) for each in graph.sparse_initializer)
        del graph.sparse_initializer[:]
    for attribute in _sparse_constants(dense):
        value = _dense(attribute.sparse_tensor, name)
        attribute.CopyFrom(helper.make_attribute("value", value))
    return dense


def _sparse_constants(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    """The attributes of Constant nodes that hold a sparse tensor."""
    for node in chain.from_iterable(map(all_nodes, (model.graph, *model.functions))):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("sparse_tensor"):
                yield attribute


def _dtype(sparse: onnx.SparseTensorProto) -> np.dtype[np.generic]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(sparse.values.data_type))


def _dense(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    """Zeros but for the values: an index is a place in the flat tensor, or one for each axis."""
    shape, values = tuple(sparse.dims), numpy_helper.to_array(sparse.values)
    indices = numpy_helper.to_array(sparse.indices).astype("int64")
    dense = np.zeros(shape, values.dtype)
    try:
        if indices.ndim == 2:
            indices = np.ravel_multi_index(tuple(indices.T), shape)
        if np.any(indices < 0):
            raise IndexError("an index is negative")
        dense.reshape(-1)[indices] = values
    except (ValueError, IndexError) as error:
        raise ModelFileError(
            f"{name} is broken: sparse tensor {sparse.values.name!r} has indices that do not fit "
            f"its {values.size} values or its shape {list(shape)}"
        ) from error
    return numpy_helper.from_array(dense, sparse.values.name)
