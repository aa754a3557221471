"""What the cost model says of a convolution and its pool as a group, beside both one by one."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import Sweep
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.topi.cost.ranking import predict_seconds as layer_seconds
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.pooled_conv import PooledConv, bands_of
from tvm_neocpu.topi.sweep.cost import issue_cycles
from tvm_neocpu.topi.sweep.cost import predict_seconds as sweep_seconds
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload

# Share of the time of layer and pool one by one by which the model may err in what a group gains.
# Zen 3, one thread: the model predicts 2 % for two stems with their pools. ResNet-18 gained 0.11 ms
# (8 % of 1.41 ms, its stem and pool), SqueezeNet lost 0.11 ms (6 % of 1.94 ms): 14 % apart.
MARGIN = 0.15


def best_group(layer: Member, pool: Sweep, cpu: Cpu) -> PooledConv | None:
    """The cheapest group of a layer and the pool behind it.

    ``None`` where they do not fit together, and where they are predicted to be faster one by one.
    Whether it is worth taking unmeasured, :func:`saved_share` says.
    """
    if pool.window is None or pool.dtype != "float32":
        return None
    fitting = bands_of(layer, pool.window, pool.output[2], cpu)
    best = min(fitting, key=lambda group: predict_seconds(group, pool, cpu), default=None)
    if best is None or predict_seconds(best, pool, cpu) >= apart_seconds(layer, pool, cpu):
        return None
    return best


def saved_share(layer: Member, group: PooledConv, pool: Sweep, cpu: Cpu) -> float:
    """What the group surely saves, as a share of the time of layer and pool one by one.

    This is what the model predicts, less its error (:data:`MARGIN`): negative where only a
    measurement can tell whether the group is faster.
    """
    return 1 - MARGIN - predict_seconds(group, pool, cpu) / apart_seconds(layer, pool, cpu)


def predict_seconds(group: PooledConv, pool: Sweep, cpu: Cpu) -> float:
    """Seconds of one run of the group on ``cpu.cores`` threads.

    The pool reads rows that its own core has just written: no memory, no other core.
    """
    core, layer = cpu.with_cores(1), group.layer
    conv = layer_seconds(layer.workload, layer.config, core) - cpu.fork_join
    images = layer.workload.batch
    chunks = [group.chunks_of(band) for _ in range(images) for band in range(group.bands)]
    share = math.ceil(len(chunks) / cpu.cores)
    busiest = max(sum(chunks[at : at + share]) for at in range(0, len(chunks), share))
    pooled = issue_cycles(workload_of(layer, pool), cpu) / (cpu.ghz * 1e9)
    return conv * busiest / (images * group.chunks) + pooled * share / len(chunks) + cpu.fork_join


def apart_seconds(layer: Member, pool: Sweep, cpu: Cpu) -> float:
    """Seconds of the layer and its pool one by one."""
    apart = sweep_seconds(workload_of(layer, pool), SweepConfig(), cpu)
    return layer_seconds(layer.workload, layer.config, cpu) + apart


def workload_of(layer: Member, pool: Sweep) -> SweepWorkload:
    """The pool in the layout that the layer writes."""
    return SweepWorkload.of(pool, Layout(int(layer.config.oc_bn)))
