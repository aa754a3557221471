"""The cost model's quality as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tvm_neocpu.contrib.cost_model.fit import Fit
from tvm_neocpu.contrib.cost_model.quality import Judged, NetworkSummary, Summary, by_kind, summary
from tvm_neocpu.contrib.cost_model.readings import Readings
from tvm_neocpu.core.messages.plural import plural

# Layers at which the model's choice loses most time: so many are listed.
WORST = 10
_MICRO, _MILLI = 1e6, 1e3


@dataclass(frozen=True)
class ModelReport:
    """What ``bench model`` found; ``networks`` have a verdict in the log."""

    cpu: str
    readings: Readings
    judged: tuple[Judged, ...]
    networks: tuple[NetworkSummary, ...]

    @property
    def worst(self) -> list[Judged]:
        """The layers at which most time is lost, most first."""
        lossy = [each for each in self.judged if each.regret > 1]
        return sorted(lossy, key=lambda each: each.layer.best - each.chosen_seconds)[:WORST]


def show(report: ModelReport, console: Console) -> None:
    """Print rank correlation and regret by operator, the worst layers, the networks."""
    readings = report.readings
    stale = f", {readings.stale} of them with templates that have changed since"
    console.print(
        f"{report.cpu}: {readings.records} measured configs{stale if readings.stale else ''}"
    )
    lines = box.HEAVY_HEAD if console.is_terminal else box.ASCII
    table = _table("by operator", ("operator", "threads", *_HEADINGS), lines)
    for (kind, threads), found in by_kind(report.judged).items():
        table.add_row(kind, str(threads), *_cells(found))
    table.add_row("all", "", *_cells(summary(report.judged)))
    console.print(table)
    layers = _table("where the model's choice loses most", _WORST_HEADINGS, lines)
    for each in report.worst:
        lost = _MICRO * (each.chosen_seconds - each.layer.best)
        chosen = str(each.layer.configs[each.chosen])
        row = (str(each.layer.workload), str(each.layer.cpu.cores), f"{lost:.0f}")
        layers.add_row(*row, f"{each.regret:.3f}", chosen, str(each.layer.configs[0]))
    console.print(layers)
    for found in report.networks:
        console.print(_network_line(found))


def show_fit(fit: Fit, console: Console) -> None:
    """Print each constant's value today, the fitted one, and what the fit gains."""
    lines = box.HEAVY_HEAD if console.is_terminal else box.ASCII
    table = _table(f"fitted on {fit.fitted_on}", ("constant", "today", "fitted", "says"), lines)
    for found in fit.constants:
        table.add_row(
            found.constant.name, f"{found.before:g}", f"{found.after:g}", found.constant.says
        )
    console.print(table)
    console.print(
        f"loss {fit.loss_before:.4f} -> {fit.loss_after:.4f}; on the layers that were held out "
        f"{fit.held_out_before:.4f} -> {fit.held_out_after:.4f}"
    )


def as_json(report: ModelReport, fit: Fit | None = None) -> dict[str, Any]:
    """Everything; times in seconds."""
    content: dict[str, Any] = {
        "configs": report.readings.records,
        "stale": report.readings.stale,
        "operators": [
            {"operator": kind, "threads": threads, **asdict(found)}
            for (kind, threads), found in by_kind(report.judged).items()
        ],
        "all": asdict(summary(report.judged)),
        "layers": [_layer_json(each) for each in report.judged],
        "networks": [asdict(n) | {"regret": n.regret} for n in report.networks],
    }
    return content if fit is None else content | {"fit": _fit_json(fit)}


_HEADINGS = ("layers", "configs", "rank", "regret", "in its layout")
_WORST_HEADINGS = ("layer", "threads", "us lost", "regret", "the model's choice", "best known")


def _table(title: str, headings: Sequence[str], lines: box.Box) -> Table:
    table = Table(title=title, box=lines)
    for heading in headings:
        words = heading in ("operator", "layer", "constant", "says", *_WORST_HEADINGS[-2:])
        table.add_column(heading, justify="left" if words else "right")
    return table


def _cells(found: Summary) -> tuple[str, ...]:
    figures = (f"{found.rank:.2f}", f"{found.regret:.3f}", f"{found.layout_regret:.3f}")
    return str(found.layers), str(found.configs), *figures


def _network_line(found: NetworkSummary) -> str:
    return (
        f"{found.name}, {plural(found.threads, 'thread')}: the model's choices "
        f"{_MILLI * found.chosen:.2f} ms, the best known {_MILLI * found.best:.2f}, "
        f"regret {found.regret:.3f} ({found.covered} of {found.layers} layers known)"
    )


def _layer_json(each: Judged) -> dict[str, Any]:
    layer = each.layer
    return {
        "workload": str(layer.workload),
        "threads": layer.cpu.cores,
        "configs": len(layer.configs),
        "rank": each.rank,
        "regret": each.regret,
        "layout_regret": each.layout_regret,
        "chosen": str(layer.configs[each.chosen]),
        "chosen_seconds": each.chosen_seconds,
        "best": str(layer.configs[0]),
        "best_seconds": layer.best,
    }


def _fit_json(fit: Fit) -> dict[str, Any]:
    return {
        "fitted_on": fit.fitted_on,
        "constants": {
            f.constant.name: {"before": f.before, "after": f.after} for f in fit.constants
        },
        "loss": [fit.loss_before, fit.loss_after],
        "held_out": [fit.held_out_before, fit.held_out_after],
    }
