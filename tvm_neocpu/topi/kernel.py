"""One workload under one config as a function of its own: what tuning times and benchmarks run.

The epilogue is the usual one, bias and ReLU, so that its registers and stores are measured too.
"""

from __future__ import annotations

from tvm import te, tirx

from tvm_neocpu.core.candidate import layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import ConvWorkload, DenseWorkload, TransformWorkload, Workload
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.strategy import implementation_of


def kernel(workload: Workload, config: Config) -> tirx.PrimFunc:
    """A scheduled function of (data, packed weight, bias, output), or of (data, output).

    All tensors are as the config stores them. Raises ConfigError where no implementation of that
    name is registered.
    """
    return schedule_function(unscheduled(workload, config))


def unscheduled(workload: Workload, config: Config) -> tirx.PrimFunc:
    """The same, as its template computes it."""
    implementation = implementation_of(config)
    data = te.placeholder(data_shape(workload, config), name="data")
    if implementation.packed_shape is None:
        return te.create_prim_func([data, implementation.compute(data, workload, config)])
    weight = te.placeholder(implementation.packed_shape(workload, config), name="weight")
    result = implementation.compute(data, weight, workload, config)
    bias = te.placeholder(_bias_shape(workload, config), name="bias")
    biased = te.compute(
        result.shape, lambda *at: result(*at) + bias(*_bias_index(workload, at)), name="T_add"
    )
    output = te.compute(
        result.shape, lambda *at: te.max(biased(*at), tirx.const(0.0, "float32")), name="T_relu"
    )
    return te.create_prim_func([data, weight, bias, output])


def data_shape(workload: Workload, config: Config) -> tuple[int, ...]:
    """The shape in which the config reads its data."""
    if isinstance(workload, DenseWorkload):
        return (workload.batch, workload.in_features)
    if isinstance(workload, TransformWorkload):
        return Layout(workload.before).shape_of(workload.in_shape)
    return layouts_of(config)[0].shape_of(workload.in_shape)


def _bias_shape(workload: Workload, config: Config) -> tuple[int, ...]:
    if isinstance(workload, ConvWorkload):
        return layouts_of(config)[1].shape_of((1, workload.out_channels, 1, 1))
    assert isinstance(workload, DenseWorkload)
    return (workload.out_features,)


def _bias_index(workload: Workload, at: tuple[tirx.Var, ...]) -> tuple[tirx.Expr | int, ...]:
    return (0, at[1], 0, 0, *at[4:]) if isinstance(workload, ConvWorkload) else (at[1],)
