"""What a log says of each layer: configs and their seconds, on one CPU and thread count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.topi.table import fits, operator_of
from tvm_neocpu.tuning.database.lines.staleness import MEASURED_BY, is_current

# Fewer configs of a layer say nothing about an order.
MIN_READINGS = 3


@dataclass(frozen=True)
class Layer:
    """A workload's measured configs, the fastest first; ``cpu.cores`` is the thread count."""

    workload: Workload
    cpu: Cpu
    configs: tuple[Config, ...]
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """Seconds of the fastest config that anybody measured."""
        return self.seconds[0]


@dataclass(frozen=True)
class Readings:
    """The layers of a log with :data:`MIN_READINGS` configs or more.

    ``stale`` of its ``records`` were measured with templates that have changed since, or with
    another TVM. They judge the model all the same: an order of configs outlives such changes.
    """

    layers: tuple[Layer, ...]
    records: int
    stale: int

    @property
    def threads(self) -> tuple[int, ...]:
        return tuple(sorted({layer.cpu.cores for layer in self.layers}))


def readings_of(records: Iterable[Record], cpu: Cpu) -> Readings:
    """The records of one CPU by layer and thread count.

    A config's last record counts. Times of two protocols do not compare: a layer has those in the
    network if there are any, else those taken alone.
    """
    last: dict[tuple[Workload, int, Config], Record] = {}
    for record in records:
        mine = record.cpu == cpu.name and record.ok and record.threads > 0
        if mine and record.protocol in MEASURED_BY and not _is_no_layer(record):
            last[record.workload, record.threads, record.config] = record
    groups: dict[tuple[Workload, int], list[Record]] = {}
    for (workload, threads, config), record in last.items():
        if fits(workload, config, cpu):
            groups.setdefault((workload, threads), []).append(record)
    layers, used = [], []
    for (workload, threads), found in groups.items():
        kept = _of_one_protocol(found)
        if len(kept) >= MIN_READINGS:
            layers.append(_layer(workload, cpu.with_cores(threads), kept))
            used += kept
    return Readings(tuple(layers), len(used), sum(not is_current(record) for record in used))


def kind_of(workload: Workload) -> str:
    """The operator's name; convolutions by what bounds them: depthwise, 1x1, first layer, others.

    A first layer reads plain NCHW.
    """
    name = operator_of(workload).name
    if not isinstance(workload, ConvWorkload):
        return name
    if workload.is_depthwise:
        return f"{name} depthwise"
    if workload.reads_plain:
        return f"{name} first layer"
    return f"{name} {workload.kernel[0]}x{workload.kernel[1]}"


def on(layers: Iterable[Layer], cpu: Cpu) -> tuple[Layer, ...]:
    """The same readings, to be predicted for the figures of another description of the CPU."""
    return tuple(replace(layer, cpu=cpu.with_cores(layer.cpu.cores)) for layer in layers)


def _is_no_layer(record: Record) -> bool:
    return isinstance(record.workload, (TransformWorkload, SweepWorkload))


def _of_one_protocol(records: Sequence[Record]) -> list[Record]:
    present = {record.protocol for record in records}
    counted = next(protocol for protocol in MEASURED_BY if protocol in present)
    return [record for record in records if record.protocol == counted]


def _layer(workload: Workload, cpu: Cpu, records: Sequence[Record]) -> Layer:
    ordered = sorted(records, key=lambda record: record.seconds)
    configs = tuple(record.config for record in ordered)
    return Layer(workload, cpu, configs, tuple(record.seconds for record in ordered))
