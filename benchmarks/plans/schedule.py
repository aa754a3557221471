"""The paper's experiment on its networks.

    python benchmarks/plans/schedule.py [--machine M] [NETWORK]

Writes benchmarks/results/schedule_<machine>.json and .md. Nothing is measured: the profilers'
formulas price every schedule, so the result is the same on every machine (for `this-cpu`, on every
CPU of the kind and with as many cores as it runs on).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm_neocpu.commands.schedule import experiment
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.provenance import commit
from tvm_neocpu.contrib.schedule.as_json import as_json

NETWORKS = ("vgg16", "resnet50", "resnet152", "inception_v3", "densenet121", "nasnet_a_mobile")
RESULTS = Path(__file__).parents[1] / "results"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--machine", default="nvdla-small")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    reports = []
    for name in options.networks:
        found = experiment(name, model_zoo.find(name).sketch(), options.machine, {})
        report = as_json(found)
        del report["best"]["groups"]  # long, and the command shows them
        reports.append(report)
        print(f"{name}: {report['seconds']} s", flush=True)
    result = {"commit": commit(), "machine": options.machine, "networks": reports}
    path = options.results / f"schedule_{options.machine}"
    path.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".md").write_text(as_markdown(options.machine, reports))
    return 0


def as_markdown(machine: str, reports: Sequence[dict[str, Any]]) -> str:
    """Cycles and traffic of each partition in its best order, relative to no fusion."""
    found = (row["partitioner"] for report in reports for row in report["rows"])
    names = [name for name in dict.fromkeys(found) if name != "exact"]
    lines = [
        f"# Schedules on {machine}",
        "",
        "Predicted cycles / DRAM bytes relative to no fusion; each partition in its best order.",
        "`orders` is the slowest order over the fastest, of the partition where it differs most;",
        "`s` is what all partitions and orders took to find and to price.",
        "",
        f"| network | nodes | {' | '.join(names[1:])} | use, no fusion | best | orders | s |",
        f"|---|{'---|' * (len(names) + 4)}",
    ]
    for report in reports:
        lines.append(f"| {report['network']} | {report['nodes']} | {' | '.join(_cells(report))} |")
    return "\n".join(lines) + "\n"


def _cells(report: dict[str, Any]) -> list[str]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in report["rows"]:
        if row["partitioner"] == "exact":
            continue  # small networks alone have it
        rows.setdefault(row["partitioner"], []).append(row)
    fastest = [min(found, key=lambda row: row["cycles"]) for found in rows.values()]
    spread = max(
        max(row["cycles"] for row in found) / min(row["cycles"] for row in found)
        for found in rows.values()
    )
    return [
        *(
            f"{row['cycles_to_no_fusion']:.3f} / {row['dram_to_no_fusion']:.3f}"
            for row in fastest[1:]
        ),
        f"{fastest[0]['utilisation']:.0%}",
        f"{max(row['utilisation'] for row in fastest):.0%}",
        f"{spread:.3f}",
        f"{report['seconds']:.0f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
