"""What the cost model says of dense layers of many rows: a matrix product, and its rows' copy."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.cost.roofline import prefetched_bytes, seconds
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig, GemmGeometry
from tvm_neocpu.topi.gemm.cost import Product, work


def predict_seconds(dense: DenseWorkload, config: GemmConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = GemmGeometry(dense, config)
    weights = float(item_bytes(dense.types.weight) * math.prod(geometry.packed_shape))
    pitch = dense.in_features * item_bytes(dense.types.data)
    product = Product(geometry.tiles, dense.types, geometry.copies, pitch, config.parallel_oc)
    done = work(product, geometry.chunks, cpu, prefetched=prefetched_bytes(weights), cold=weights)
    return seconds(done, cpu) + cpu.fork_join * (geometry.copies and config.parallel_oc)
