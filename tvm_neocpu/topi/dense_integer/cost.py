"""What the cost model says of integer dense layers: a matrix product of words."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import DotProduct
from tvm_neocpu.core.types import item_bytes, uniform
from tvm_neocpu.topi.cost.roofline import prefetched_bytes, seconds
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig, IntegerDenseGeometry
from tvm_neocpu.topi.gemm.cost import Product, work
from tvm_neocpu.topi.math.dot_products import WORD_TYPE

WORDS = uniform(WORD_TYPE)


def predict_seconds(dense: DenseWorkload, config: IntegerDenseConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    dot = cpu.dot_of(config.dot, signed=config.signed)
    return seconds_of(IntegerDenseGeometry(dense, config), dot, cpu)


def seconds_of(geometry: IntegerDenseGeometry, dot: DotProduct | None, cpu: Cpu) -> float:
    """The same of any geometry like this one's, whose words ``dot`` multiplies."""
    dense, config = geometry.dense, geometry.config
    weights = float(item_bytes(WORD_TYPE) * math.prod(geometry.packed_shape))
    product = Product(
        geometry.tiles,
        WORDS,
        geometry.copies,
        dense.in_features,
        config.parallel_oc,
        dot=dot,
    )
    done = work(product, geometry.chunks, cpu, prefetched=prefetched_bytes(weights), cold=weights)
    return seconds(done, cpu) + cpu.fork_join * (geometry.copies and config.parallel_oc)
