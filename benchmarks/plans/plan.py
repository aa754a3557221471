"""One Markdown page from the reports of `python -m tvm_neocpu.bench plan`, one report per network.

    python -m tvm_neocpu.bench plan resnet50 --json benchmarks/results/plan_resnet50.json
    python benchmarks/plans/plan.py

The second line reads benchmarks/results/plan_*.json, or the files given, and writes
benchmarks/results/plan.md. The exit code is 1 if a prediction is off by more than LIMIT, or if a
greedy plan was clearly faster than the global one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
# Max relative error of a predicted time.
LIMIT = 0.15
HEADINGS = (
    "network",
    "predicted ms",
    "measured ms",
    "error",
    "rank correlation",
    "global over greedy",
    "quartiles",
    "predicted gain",
    "one layout over global",
    "threads",
    "commit",
)
NOTE = (
    "Predicted: the search's sum (convolutions, dense layers, pools and joins, layout transforms) "
    "plus everything else (softmax; in older reports pools and joins, too), which was timed once "
    "inside the network of the global plan. Measured: the median of runs that are interleaved with "
    "those of the other plans, each plan in a process of its own. Rank correlation: Spearman's, "
    "over all plans (global, greedy, one layout for all, random). Global over greedy: the greedy "
    "plan's measured time over the global plan's, with the quartiles of the pairs of runs; above "
    "1, global is faster. The same holds for the predicted gain and for one layout over global."
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="default: results/plan_*.json")
    parser.add_argument("--markdown", type=Path, default=RESULTS / "plan.md", metavar="F")
    options = parser.parse_args()
    files = options.files or sorted(RESULTS.glob("plan_*.json"))
    if not files:
        parser.error("there is no plan_*.json; the docstring says what writes them")
    reports = [json.loads(path.read_text()) for path in files]
    options.markdown.write_text(page(reports))
    networks = [network for report in reports for network in report["networks"]]
    off = [n["network"] for n in networks if abs(n["error"]) > LIMIT]
    # A gain below 1 counts if three quarters of the interleaved pairs of runs agree.
    slower = [n["network"] for n in networks if n["gain"] < 1 and n["gain_quartiles"][1] < 1]
    print(f"predicted more than {LIMIT:.0%} off: {', '.join(off) or 'none'}")
    print(f"global slower than greedy: {', '.join(slower) or 'none'}")
    return 1 if off or slower else 0


def page(reports: list[dict[str, Any]]) -> str:
    """All reports as Markdown: the machine, one row per network, then each network's plans."""
    parts = ["# Predicted and measured plans", _machine(reports[0]), NOTE, summary(reports)]
    for report in reports:
        for network in report["networks"]:
            parts += [f"## {network['network']}", plans(network), details(network)]
    return "\n\n".join(parts) + "\n"


def summary(reports: list[dict[str, Any]]) -> str:
    """One row per network: its global plan, compared with the others."""
    rows = [
        [
            network["network"],
            *_times(find(network, "global")),
            "-" if network["spearman"] is None else f"{network['spearman']:.2f}",
            f"{network['gain']:.3f}x",
            "{:.3f}-{:.3f}".format(*network["gain_quartiles"]),
            f"{network['predicted_gain']:.3f}x",
            f"{_over_global(network):.3f}x",
            str(report["threads"]),
            report["commit"],
        ]
        for report in reports
        for network in report["networks"]
    ]
    return table(HEADINGS, rows)


def plans(network: dict[str, Any]) -> str:
    """One row per plan of a network; times in ms."""
    rows = [
        [
            " = ".join(plan["names"]),
            f"{plan['convolutions_ms']:.3f}",
            f"{plan.get('sweeps_ms', 0.0):.3f}",  # older reports have none
            f"{plan['transforms_ms']:.3f}",
            f"{network['everything_else_ms']:.3f}",
            *_times(plan),
        ]
        for plan in network["plans"]
    ]
    parts = (
        "plan",
        "convolutions",
        "pools, joins",
        "transforms",
        "everything else",
        *HEADINGS[1:4],
    )
    return table(parts, rows)


def details(network: dict[str, Any]) -> str:
    """The global plan inside its network, and the schemes whose predictions are off most."""
    ours, inside = find(network, "global"), network["in_network"]
    known = ours["of_it_from_log_ms"] / ours["convolutions_ms"]
    lines = [
        "Inside the network the global plan's convolutions took "
        f"{inside['convolutions_ms']:.3f} ms ({known:.0%} of their predicted time is from the "
        f"log), its transforms {inside['transforms_ms']:.3f} ms."
    ]
    if network["core_share"] < 0.95:
        lines.append(f"**Disturbed: the runs got {network['core_share']:.0%} of their core.**")
    worst = sorted(network["schemes"], key=_deviation, reverse=True)[:5]
    lines.append(
        "Largest deviations: "
        + "; ".join(
            f"{s['workload']} ({s['calls']} calls) {s['predicted_ms']:.3f} predicted, "
            f"{s['in_network_ms']:.3f} in place"
            for s in worst
        )
        + "."
    )
    return " ".join(lines)


def find(network: dict[str, Any], name: str) -> dict[str, Any]:
    """The plan with a name. Equal plans are one plan with several names."""
    return next(plan for plan in network["plans"] if name in plan["names"])


def table(headings: tuple[str, ...], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(r)} |" for r in [headings, ["---"] * len(headings), *rows])


def _times(plan: dict[str, Any]) -> list[str]:
    return [f"{plan['predicted_ms']:.3f}", f"{plan['measured_ms']:.3f}", f"{plan['error']:+.1%}"]


def _over_global(network: dict[str, Any]) -> float:
    one = next(p for p in network["plans"] for name in p["names"] if name.startswith("all "))
    return float(one["measured_ms"] / find(network, "global")["measured_ms"])


def _deviation(scheme: dict[str, Any]) -> float:
    return abs(float(scheme["predicted_ms"] - scheme["in_network_ms"]))


def _machine(report: dict[str, Any]) -> str:
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    return (
        f"Machine: {machine['model']} ({machine['cpu']}), {machine['cores']} cores; {versions}, "
        f"{report['time']}."
    )


if __name__ == "__main__":
    raise SystemExit(main())
