"""The comparison as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tvm_neocpu.contrib.peers.compare import Timing
from tvm_neocpu.contrib.peers.table import ENGINES_IN, OURS, Engine, is_ours
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.accuracy.precision import BF16, FP32
from tvm_neocpu.core.messages.plural import plural

_MILLI = 1e3
# What engines did with the file's numbers.
_NARROWING = {
    FP32: "no engine narrows the file's float32",
    BF16: "in bf16 but for ours in fp32 and ONNX Runtime",
}


WRONG = "wrong"
# Behind a time: the engine's int8 sums saturate on this CPU, which has no VNNI.
SATURATES = " (saturates)"


@dataclass(frozen=True)
class Absence:
    """Why an engine has no timing: ``state`` in two words for the table, the reason in a line."""

    state: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """One network's timings by engine, why an engine has none, and whose outputs are right."""

    network: str
    timings: Mapping[str, Timing]
    absent: Mapping[str, Absence] = field(default_factory=dict)
    reference: str = OURS

    @property
    def best_peer(self) -> str | None:
        """The fastest engine that is not ours and whose outputs are right, or merely saturate."""
        peers = {
            name: timing.median
            for name, timing in self.timings.items()
            if not is_ours(name) and name not in self.differing
        }
        return min(peers, key=peers.__getitem__) if peers else None

    @property
    def speedup(self) -> float | None:
        """The best peer's time over ours: above 1 we are faster."""
        peer = self.best_peer
        if peer is None or OURS not in self.timings:
            return None
        return self.timings[peer].median / self.timings[OURS].median

    @property
    def differing(self) -> tuple[str, ...]:
        """The engines whose outputs are not the reference's."""
        return tuple(name for name, timing in self.timings.items() if timing.differs)


def show(
    comparisons: list[Comparison], threads: int, console: Console, precision: str = FP32
) -> None:
    """Print one row per network: medians in milliseconds, our speed-up, the largest error."""
    caption = f"median ms (or us) of a run, interleaved; {_NARROWING[precision]}"
    lines = box.HEAVY_HEAD if console.is_terminal else box.ASCII
    table = Table(title=f"latency on {plural(threads, 'thread')}", caption=caption, box=lines)
    table.add_column("network")
    engines = ENGINES_IN[precision]
    for engine in engines:
        table.add_column(engine.name, justify="right")
    table.add_column("vs best peer", justify="right")
    table.add_column("largest error", justify="right")
    for comparison in comparisons:
        table.add_row(*_row(comparison, engines))
    console.print(table)


def as_json(
    comparisons: list[Comparison], threads: int, cpu: str, precision: str = FP32
) -> dict[str, Any]:
    """Everything needed to read the figures later: machine, versions, commit, every run."""
    engines = [engine for engine in ENGINES_IN[precision] if engine.installed]
    return {
        **provenance(cpu, threads),
        "precisions": {engine.name: engine.precision for engine in engines},
        "versions": {engine.name: engine.version for engine in engines},
        "networks": [_as_json(comparison) for comparison in comparisons],
    }


def _row(comparison: Comparison, engines: Sequence[Engine]) -> list[str]:
    cells = [_cell(comparison, engine.name) for engine in engines]
    speedup = comparison.speedup
    ratio = "-" if speedup is None else f"{speedup:.2f}x"
    ours = comparison.timings.get(OURS)
    error = "-" if ours is None or speedup is None else f"{ours.error:.1e}"
    return [comparison.network, *cells, ratio, error]


def _cell(comparison: Comparison, name: str) -> str:
    timing = comparison.timings.get(name)
    if timing is None:
        absence = comparison.absent.get(name)
        return absence.state if absence else "-"
    if name in comparison.differing:
        return WRONG
    return milliseconds(timing.median) + (SATURATES if timing.saturates else "")


def milliseconds(seconds: float) -> str:
    """``"17.81"``; below a millisecond in microseconds, ``"85 us"``."""
    return f"{seconds * _MILLI:.2f}" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def _as_json(comparison: Comparison) -> dict[str, Any]:
    engines = {
        name: {
            "median_ms": timing.median * _MILLI,
            "runs_ms": [seconds * _MILLI for seconds in timing.seconds],
            "largest_error": timing.error,
            "right": not timing.differs and not timing.saturates,
            "saturates": timing.saturates,
        }
        for name, timing in comparison.timings.items()
    }
    return {
        "network": comparison.network,
        "engines": engines,
        "reference": comparison.reference,
        "absent": {name: asdict(absence) for name, absence in comparison.absent.items()},
        "best_peer": comparison.best_peer,
        "speedup_over_best_peer": comparison.speedup,
    }
