"""What the cost model says of the batched product: register tiles, and packing their panels."""

from __future__ import annotations

import math
from dataclasses import replace

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig, MatmulGeometry
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.cost.roofline import seconds
from tvm_neocpu.topi.gemm.cost import COPIED_BYTES_PER_CYCLE, Product, work

# Cycles of an element that lies across: a load and a store of its own.
ALONE_CYCLES = 1.0
# The same of one that a square tile turns: a load, a store and four shuffles for each vector of 16.
TURNED_CYCLES = 0.4


def predict_seconds(product: MatmulWorkload, config: MatmulConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry, types = MatmulGeometry(product, config), product.types
    pitch = product.row_pitch * item_bytes(types.data) if product.reads_left_along_rows else 0
    tiled = Product(geometry.tiles, types, geometry.copies, count=product.batch, pitch=pitch)
    done = work(tiled, geometry.chunks, cpu)
    packed = math.prod(geometry.panels_shape) * geometry.times_packed
    cycles = done.cycles + packed * _cycles_an_element(product)
    forks = cpu.fork_join * config.shared
    return seconds(replace(done, cycles=cycles), cpu) + forks


def _cycles_an_element(product: MatmulWorkload) -> float:
    copied = item_bytes(product.types.weight) / COPIED_BYTES_PER_CYCLE
    if product.reads_right_along_rows:
        return copied
    return copied + TURNED_CYCLES if product.turns_right else ALONE_CYCLES
