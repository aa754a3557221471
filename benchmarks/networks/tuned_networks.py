"""Tuned over untuned networks: both built, run in turns, each in a fresh process.

    python benchmarks/networks/tuned_networks.py --threads 1 --time-budget 300 \
        --output benchmarks/results/F
    python benchmarks/networks/tuned_networks.py resnet50 mobilenet_v2 --threads 2 \
        --time-budget 300 --output benchmarks/results/tuned_2_threads_zen3.json

Without names: the whole zoo. Each network is tuned from an empty database of its own (`tune
--time-budget`), then built without records and with that log. PAIRS times or more both builds start
in fresh processes and run in turns; the ratio of a pair is the untuned median over the tuned one,
so that above 1 tuning helped. Pairs of equal builds differ by several percent, so that a network is
judged by the interval that holds the median of all possible pairs with 95 %: "faster" where all of
it is above 1, "slower" where all of it is below LIMIT, "not slower" where none of it is below
LIMIT, else "unclear". Unclear ones get more pairs, up to --most-pairs. Builds that are equal byte
for byte are not run: their ratio is 1.

The result is written after every network: one that is interrupted keeps what it has, and goes on
where it stopped with the same file. `--minutes` ends the run in time: no network is begun that
would take longer, by what the last one took. A network that fails is written down with the reason,
and tried again by the next run. The exit code is 1 if a network failed or is slower, 130 after
Ctrl-C. `--target "llvm -mcpu=NAME"` tunes and runs for another CPU of this instruction set.

On a machine that is idle for minutes only, sessions may run beside other work and the builds later:

    # tunes, builds
    python benchmarks/networks/tuned_networks.py resnet50 --folder kept --later --output F
    # runs both builds
    python benchmarks/networks/tuned_networks.py resnet50 --folder kept --output F

`--folder` keeps logs and builds, of one thread count and one target; what is there is taken again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from tvm_neocpu import relay
from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.peers.compare import PAUSE_SECONDS, compare
from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.ours import OurRunner
from tvm_neocpu.contrib.peers.runner import Network, Runner
from tvm_neocpu.contrib.provenance import commit, provenance
from tvm_neocpu.core.draft import draft_of
from tvm_neocpu.core.errors import NeoCpuError, first_line
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.runtime.process import threads as our_threads
from tvm_neocpu.specialize import build_networks
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import History, apply_history_best

# No network may be slower than this, tuned over untuned.
LIMIT = 0.995
# Six pairs are the least that have an interval of 95 %.
PAIRS, MOST_PAIRS, RUNS = 6, 12, 20
SURE = 0.95
# A session that takes longer than so many seconds and budgets hangs.
LONGEST_START, LATE = 600.0, 3.0
LABELS = ("untuned", "tuned")
PACKAGES = ("numpy", "xgboost")

Row = dict[str, Any]


def tune(name: str, target: str, threads: int, budget: float, log: Path) -> Row:
    """The report of `tune` from an empty database, with its seconds and the load before it."""
    report = log.with_suffix(".json")
    command = [sys.executable, "-m", "tvm_neocpu.tune", name, "--target", target]
    command += ["--threads", str(threads), "--time-budget", str(budget)]
    command += ["--log", str(log), "--json", str(report)]
    environment = {**os.environ, "TVM_NEOCPU_DATA": str(log.with_suffix(".data"))}
    environment["TVM_NUM_THREADS"] = str(threads)
    load, start = os.getloadavg()[0], time.monotonic()
    longest = LONGEST_START + LATE * budget
    if code := run_in_group(command, environment, longest):
        raise NeoCpuError(f"tune ended with code {code}")
    (found,) = json.loads(report.read_text())["networks"]
    about = {"time_budget": budget, "load": load, "commit": commit()}
    return {**found, "wall_seconds": time.monotonic() - start, **about}


def run_in_group(command: Sequence[str], environment: Mapping[str, str], longest: float) -> int:
    """Run a command with all that it starts in a process group of its own; its exit code.

    Whatever ends the wait ends the group, so that no process of it disturbs the next network.
    Raises NeoCpuError if it takes more than ``longest`` seconds.
    """
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return process.wait(longest)
    except subprocess.TimeoutExpired:
        raise NeoCpuError(f"{command[2]} did not end within {longest:.0f} s") from None
    finally:
        # Also behind a command that ended: it may have died without its children.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def libraries_of(log: Path) -> dict[str, Path]:
    """Where the builds of a network are, beside its log."""
    return {label: log.with_suffix(f".{label}.so") for label in LABELS}


def export(name: str, target: str, log: Path) -> None:
    """Write the libraries of both builds."""
    model = model_zoo.build(name)
    mod, _ = relay.frontend.from_onnx(model, resolve_shapes(model.graph, {}))
    chosen = parse_target(target)
    paths, nothing = libraries_of(log), History(chosen.cpu.name, chosen.cpu.cores)
    build_networks({"main": mod}, chosen, history=nothing).export_library(paths["untuned"])
    # Inside, since a network that runs on one core has its plan under another thread count.
    with apply_history_best(log):
        build_networks({"main": mod}, chosen).export_library(paths["tuned"])


def same(libraries: dict[str, Path]) -> bool:
    """Whether both builds are one, byte for byte: `tune` kept what was there."""
    first, second = (path.read_bytes() for path in libraries.values())
    return first == second


def pair(network: Network, libraries: dict[str, Path], runs: int, reverse: bool) -> Row:
    """Both builds in fresh processes, in turns: medians in ms, their ratio, the outputs' error.

    In every other pair the tuned one comes first.
    """
    order = LABELS[::-1] if reverse else LABELS
    loads = [partial(OurRunner, network, libraries[label]) for label in order]
    # Nothing spins between the turns of one thread.
    pause = PAUSE_SECONDS if network.threads > 1 else 0.0
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(loads)) as pool:
        opened = [stack.enter_context(runner) for runner in pool.map(IsolatedRunner, loads)]
        runners: dict[str, Runner] = dict(zip(order, opened, strict=True))
        timings = compare(runners, runs, reference="untuned", pause=pause)
    before, after = (1e3 * timings[label].median for label in LABELS)
    return {
        "untuned_ms": before,
        "tuned_ms": after,
        "ratio": before / after,
        "error": timings["tuned"].error,
    }


def interval_of(ratios: Sequence[float]) -> tuple[float, float]:
    """What holds the median of all possible pairs with a confidence of SURE; no end below six.

    Each pair is above that median as often as below it, whatever their distribution is: the lowest
    k of n are all above it with the chance of n coins that show heads less than k times.
    """
    ordered, found = sorted(ratios), (0.0, math.inf)
    outside = 0.0
    for k in range(len(ordered) // 2):
        outside += 2 * math.comb(len(ordered), k) / 2 ** len(ordered)
        if outside > 1 - SURE:
            break
        found = ordered[k], ordered[-1 - k]
    return found


def judged(low: float, high: float) -> str:
    """What the interval of a network says of LIMIT."""
    if low > 1:
        return "faster"
    if low >= LIMIT:
        return "not slower"
    return "slower" if high < LIMIT else "unclear"


def row_of(name: str, tuned: Row, pairs: Sequence[Row]) -> Row:
    """One network: the median pair, its interval, all pairs, and what `tune` said."""
    ratios = [each["ratio"] for each in pairs]
    low, high = interval_of(ratios)
    return {
        "network": name,
        "ratio": median(ratios),
        "low": low,
        "high": None if math.isinf(high) else high,
        "judged": judged(low, high),
        "lowest": min(ratios),
        "highest": max(ratios),
        "pairs": list(pairs),
        "tune": tuned,
    }


def paired_until_clear(one_pair: Callable[[int], Row], least: int, most: int) -> list[Row]:
    """Pairs, until their interval is clear of LIMIT or there are ``most``."""
    pairs = [one_pair(number) for number in range(least)]
    while len(pairs) < most:
        if judged(*interval_of([each["ratio"] for each in pairs])) != "unclear":
            break
        pairs.append(one_pair(len(pairs)))
    return pairs


def measure(name: str, options: argparse.Namespace) -> Row:
    """Tune one network, and time it; with ``later`` what `tune` said alone."""
    target = f"{options.target} -num-cores={options.threads}"
    start = time.monotonic()
    with kept_in(options.folder) as folder:
        log = folder / f"{name}.log"
        said = log.with_suffix(".said.json")  # written last
        if not said.exists():
            log.unlink(missing_ok=True)
            tuned = tune(name, target, options.threads, options.time_budget, log)
            export(name, target, log)
            with draft_of(said) as draft:
                draft.write_text(json.dumps(tuned))
        tuned = json.loads(said.read_text())
        if options.later:
            return {"network": name, "tune": tuned}
        model = model_zoo.build(name)
        shapes = resolve_shapes(model.graph, {})
        network = Network(name, model, shapes, options.threads, target)
        libraries = libraries_of(log)
        if same(libraries):
            return {"network": name, "same": True, "ratio": 1.0, "tune": tuned}

        def one_pair(number: int) -> Row:
            return pair(network, libraries, options.runs, number % 2 == 1)

        pairs = paired_until_clear(one_pair, options.pairs, options.most_pairs)
    return {**row_of(name, tuned, pairs), "wall_seconds": time.monotonic() - start}


@contextlib.contextmanager
def kept_in(folder: Path | None) -> Iterator[Path]:
    """The folder, made if it is not there; ``None``: one that is removed at the end."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="tuned-") as found:
            yield Path(found)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def tried(name: str, options: argparse.Namespace) -> Row:
    """As :func:`measure`; what failed is a row with the reason."""
    try:
        row = measure(name, options)
    except Exception as error:  # whatever it is: the other networks are still to be run
        row = {"network": name, "failed": first_line(error)}
    budget = row.get("tune", {}).get("time_budget", options.time_budget)
    return {**row, "time_budget": budget, "target": options.target}


def line(row: Row) -> str:
    """For the terminal."""
    if "failed" in row:
        return f"{row['network']}: {row['failed']}"
    if "ratio" not in row:
        return f"{row['network']}: tune said: {row['tune'].get('verdict', '-')}"
    if row.get("same"):
        return f"{row['network']}: the same build; tune said: {row['tune'].get('verdict', '-')}"
    ends = "" if row["high"] is None else f" ({row['low']:.3f}-{row['high']:.3f})"
    return (
        f"{row['network']}: {row['ratio']:.3f}{ends}, {len(row['pairs'])} pairs, {row['judged']}; "
        f"tune said: {row['tune'].get('verdict', '-')}"
    )


def good(row: Row) -> bool:
    """Whether a network was measured, and is not shown to be slower tuned."""
    return "failed" not in row and row.get("judged") != "slower"


def load_report(options: argparse.Namespace) -> Row:
    """What an earlier run wrote; raises NeoCpuError if it was another comparison."""
    if not options.output.exists():
        return {"networks": []}
    report: Row = json.loads(options.output.read_text())
    if report.get("threads", options.threads) != options.threads:
        raise NeoCpuError(f"{options.output} is of {report['threads']} threads: name another file")
    targets = {row.get("target", options.target) for row in report["networks"]}
    if targets - {options.target}:
        raise NeoCpuError(f"{options.output} is of {', '.join(targets)}: name another file")
    return report


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.later and options.folder is None:
        parser.error("--later needs a --folder")
    our_threads.use_threads(options.threads)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    try:
        cpu = parse_target(f"{options.target} -num-cores={options.threads}").cpu
        report = load_report(options)
        names = options.networks or model_zoo.names()
        for name in names:
            model_zoo.find(name)
    except NeoCpuError as error:
        parser.error(str(error))
    rows = {row["network"]: row for row in report["networks"]}
    left = [name for name in names if "failed" in rows.get(name, {"failed": ""})]
    # Most sessions end long before their budget: the first one is begun in any case.
    end, took = time.monotonic() + 60 * options.minutes, 0.0
    for number, name in enumerate(left):
        begun = time.monotonic()
        if number and begun + took > end:
            print(f"the time is over, {len(left) - number} networks are left: run it again")
            break
        try:
            row = tried(name, options)
        except KeyboardInterrupt:
            print(f"interrupted, {len(left) - number} networks are left: run it again")
            return INTERRUPTED
        print(line(row), flush=True)
        took = time.monotonic() - begun
        if options.later and "failed" not in row:
            continue
        about = provenance(cpu.name, options.threads, PACKAGES)
        when = {"load": about["machine"]["load"], "commit": about["commit"], "time": about["time"]}
        rows[name] = {**row, **when}
        report = {**about, "networks": list(rows.values())}
        with draft_of(options.output) as draft:
            draft.write_text(json.dumps(report, indent=1) + "\n")
    if ratios := [row["ratio"] for row in rows.values() if "ratio" in row]:
        print(f"geometric mean of {len(ratios)} networks: {geometric_mean(ratios):.3f}")
    return 0 if all(good(row) for row in rows.values()) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--time-budget", type=float, default=300.0, metavar="S")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of the whole run")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of fresh processes, at least")
    parser.add_argument("--most-pairs", type=int, default=MOST_PAIRS, help="of an unclear network")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each build in a pair")
    parser.add_argument("--folder", type=Path, help="keep logs and builds there, or take them")
    parser.add_argument("--later", action="store_true", help="tune and build; run nothing yet")
    parser.add_argument("--output", type=Path, required=True, metavar="F")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
