"""Tune networks for a CPU: `python -m tvm_neocpu.tune resnet50 --target llvm -mcpu=skylake-avx512`.

Candidates are timed inside the network; a new plan counts only if the network was seen to be faster
with it. Everything goes to this user's log for the CPU, which every build reads. After an interrupt
the same command goes on where it stopped; on a network that is tuned it ends at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from tvm_neocpu.commands.parts.tune_fleet import add_fleet_options, check_target, open_fleet
from tvm_neocpu.commands.parts.tune_workload import tune_workload
from tvm_neocpu.commands.parts.tuning_session import network_session
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.commands.shared.busy_machine import warn_of_others
from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED
from tvm_neocpu.commands.shared.precision import add_precision_options, in_precision
from tvm_neocpu.core.accuracy.precision import FP32
from tvm_neocpu.core.errors import NeoCpuError, TargetError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import tell
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.verdict import Verdict
from tvm_neocpu.folded_network import FoldedNetwork, opener
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.relay_passes.lowering.waking_threads import SAID
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.runtime.process.busy import load_of_others
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.tuning.database.history import History, current_history
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.database.places import find_user_log
from tvm_neocpu.tuning.database.turns import measuring_turn
from tvm_neocpu.tuning.fleet.remote_workers import Remotely
from tvm_neocpu.tuning.in_network.processes.crew import Here, Site
from tvm_neocpu.tuning.in_network.report.outcome import Outcome
from tvm_neocpu.tuning.measuring.child_process import ChildError
from tvm_neocpu.tuning.seating import Choices
from tvm_neocpu.tuning.tune_network import TuningSession
from tvm_neocpu.tuning.tuners import TUNERS

_DEFAULT = next(iter(TUNERS))
# What is measured to the end needs no guesses of what to measure first.
_OF_ALL = "grid"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_tune, argv)


@dataclass(frozen=True)
class _Request:
    """What the options ask for, and where it is written; ``text`` is the target's.

    ``load`` is that of other processes before the first session, ``None`` on an idle machine.
    """

    options: argparse.Namespace
    target: CompileTarget
    text: str
    log: Path
    site: Site
    load: float | None


def _tune(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    parser = _parser()
    options = parser.parse_args(words)
    if options.models and options.workload is not None:
        parser.error("MODEL or --workload, not both")
    if options.workload is not None and (
        options.json or options.shape or options.precision != FP32
    ):
        parser.error("--json, --shape and --precision are for a MODEL; --workload takes none")
    if not options.models and options.workload is None:
        parser.error("the following arguments are required: MODEL, or --workload")
    options.tuner = options.tuner or (_OF_ALL if options.exhaustive else _DEFAULT)
    if options.threads:
        threads.use_threads(options.threads)
    text = cli.target_text(options.target, flags)
    fleet = open_fleet(options, text)
    target = parse_target(text)
    if fleet is not None:
        check_target(fleet, target)
    elif not target.runs_here:
        raise TargetError(
            f"cannot measure code for {target.cpu.name} here: {target.why_not_here}; "
            "tune on the target itself, or through --tracker"
        )
    # Records are keyed by the threads, which -num-cores may set.
    threads.use_threads(target.cpu.cores)
    if fleet is None:
        threads.remark_too_many(target.cpu.cores)
    disk.check_apart(options.log, options.json)
    disk.check_writable(options.json)
    site = Here() if fleet is None else Remotely(fleet)
    if options.workload is not None:
        log = disk.prepare_log(options.log or cli.default_log(target, "workloads"))
        return tune_workload(options, target, TuningLog(log, target.cpu.features))
    shapes = cli.parse_shapes(options.shape)
    networks = [cli.load_network(spec) for spec in options.models]
    logs = [disk.prepare_log(options.log or cli.default_log(target, name)) for name, _ in networks]
    reports: list[dict[str, Any]] = []
    load = load_of_others(target.cpu.cores) if fleet is None else None
    try:
        for (name, model), log in zip(networks, logs, strict=True):
            model, _ = in_precision(name, model, shapes, options, flags)
            request = _Request(options, target, text, log, site, load)
            report = _tune_network(request, name, model, resolve_shapes(model.graph, shapes))
            reports.append(report)
            if report.get("interrupted"):
                break
    finally:
        if reports:  # also of the networks before one that cannot be tuned
            disk.write_report(options.json, {"networks": reports})
    return INTERRUPTED if any(report.get("interrupted") for report in reports) else 0


def _tune_network(
    request: _Request, name: str, model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]
) -> dict[str, Any]:
    """One network: a session, unless an earlier one has said all; its report as JSON."""
    open_network = opener(model.SerializeToString(), shapes, request.text)
    network = open_network()
    cpu = network.cpu
    print(f"{name} on {cpu.name}, {plural(cpu.cores, 'thread')} -> {request.log}", flush=True)
    if network.on_one_core:
        print(f"{name} {SAID}", flush=True)
    coverage = FindFallbacks(cpu)(network.module)
    tell(coverage, "warn")  # no candidate is measured for these
    if coverage.fixed:
        print(
            f"{name}: {coverage.fixed_kinds} computed in one way, with nothing to tune", flush=True
        )
    if not network.graph.convs:
        # All such networks have one graph hash: a verdict would be another network's.
        print(f"{name}: nothing to tune: no layer can be computed in several ways", flush=True)
        return {"network": name, "nothing_to_tune": True}
    if told := _told_before(request, name, network):
        return told
    harm = "starting takes longer, fewer candidates are measured, a small gain cannot be proven"
    warn_of_others(request.load, harm, "tune")
    waited = False

    def waits(line: str) -> None:
        nonlocal waited
        waited = True
        print(line, flush=True)

    try:
        with measuring_turn(waits):
            # Whoever had the turn may have tuned this network.
            if waited and (told := _told_before(request, name, network)):
                return told
            outcome = _session(request, name, open_network, network).run()
    except KeyboardInterrupt:  # nothing is measured yet: a session tells of what it has
        outcome = Outcome(None, 0, 0, 0.0, interrupted=True)
    except ChildError as error:
        raise NeoCpuError(f"{name} does not run as it is: {error}") from error
    print(f"{name}: {outcome}", flush=True)
    return {"network": name, **as_json(outcome)}


def _known(request: _Request, cpu: Cpu) -> History:
    """What builds read now, and what is in the log of the session."""
    known = current_history(cpu)
    if request.log != find_user_log(cpu.name):
        known = replace(known, logs=(*known.logs, IndexedLog(request.log)))
    return known


def _told_before(request: _Request, name: str, network: FoldedNetwork) -> dict[str, Any] | None:
    """The report on a network of which an earlier session has said all; it prints the last line."""
    options = request.options
    if not options.resume or options.exhaustive:
        return None
    known = _known(request, network.cpu)
    verdict = known.verdict(network.graph)
    if verdict is None or not _is_enough(verdict, options.time_budget):
        return None
    gained = known.gained(network.graph)
    news = _old_news(verdict, gained)
    print(f"{name}: {news}", flush=True)
    return {
        "network": name,
        "tuned_before": True,
        "verdict": news,
        "settled": verdict.complete,
        "measured": verdict.candidates,
        "seconds": verdict.seconds,
        "ratio": verdict.ratio,
        "gained": gained,
    }


def _session(
    request: _Request, name: str, open_network: Callable[[], FoldedNetwork], network: FoldedNetwork
) -> TuningSession:
    options = request.options
    return network_session(
        open_network,
        network,
        _known(request, network.cpu),
        request.log,
        name=name,
        budget=options.time_budget,
        choices=Choices(
            options.tuner, options.seed, options.exhaustive, options.resume, options.trials
        ),
        site=request.site,
    )


def _is_enough(verdict: Verdict, budget: float | None) -> bool:
    """Whether a verdict says all that a session of this budget could find out.

    A session that measured nothing (its start took all of its time) says nothing.
    """
    as_long = budget is not None and budget <= verdict.seconds
    return verdict.complete or (as_long and verdict.candidates > 0)


def _old_news(verdict: Verdict, gained: float) -> str:
    """The last line for a network that was tuned before, by all sessions ``gained`` times."""
    found = f"{gained:.2f}x faster" if gained != 1.0 else "nothing faster was found"
    if verdict.kept and gained != 1.0:
        found += ", nothing faster in the last session"
    why = "every layer is settled" if verdict.complete else f"in {verdict.seconds:.0f} s"
    more = "--no-resume measures again"
    if not verdict.complete:
        more += ", a larger --time-budget goes on"
    return f"tuned before, {found} ({why}, {verdict.candidates} candidates); {more}"


def as_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome for machines; times in milliseconds, ``ratio`` above 1 where tuning helped."""
    proof = outcome.proof
    report: dict[str, Any] = {
        "verdict": str(outcome),
        "improved": outcome.improved,
        "interrupted": outcome.interrupted,
        "settled": outcome.settled,
        "measured": outcome.measured,
        "failed": outcome.failed,
        "seconds": outcome.seconds,
        "spent_seconds": dict(outcome.spent),
    }
    if proof is not None:
        report |= {
            "ratio": 1 / proof.ratio.value,
            "low": 1 / proof.ratio.high,
            "high": 1 / proof.ratio.low,
            "before_ms": 1e3 * proof.incumbent_seconds,
            "after_ms": 1e3 * proof.contender_seconds,
            "largest_error": proof.error,
        }
    return report


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu.tune", description=__doc__)
    cli.add_common_options(parser, models="*")
    add_precision_options(parser)
    parser.add_argument(
        "--workload",
        metavar="TEXT",
        help="one layer instead of networks, as `tune` prints it; timed alone, in cold caches",
    )
    parser.add_argument(
        "--trials", type=cli.positive, help="max candidates to measure per layer (default: all)"
    )
    parser.add_argument(
        "--time-budget",
        type=cli.positive_number,
        metavar="S",
        help="seconds for each network (default: until every layer is settled)",
    )
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep what the log holds already (default), or measure everything again",
    )
    parser.add_argument(
        "--tuner", choices=TUNERS, help=f"(default: {_DEFAULT}; with --exhaustive {_OF_ALL})"
    )
    cli.add_seed_option(parser, "the tuners that draw lots")
    parser.add_argument(
        "--exhaustive", action="store_true", help="measure every candidate (the paper's search)"
    )
    add_fleet_options(parser)
    parser.add_argument("--json", type=Path, metavar="F", help="write the outcome to this file")
    return parser
