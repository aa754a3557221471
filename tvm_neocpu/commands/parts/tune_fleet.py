"""The options of `tune` for measuring on other machines, checked before anything starts."""

from __future__ import annotations

import argparse

from tvm.target import Target

from tvm_neocpu.core.errors import FleetError, TargetError
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.runtime.process.host import TRACKED_FEATURES, arch_of
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.targets.llvm import features_of
from tvm_neocpu.tuning.fleet.linker import find_linker
from tvm_neocpu.tuning.fleet.tracker import Fleet, parse_fleet


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    """Add --tracker and --key."""
    parser.add_argument(
        "--tracker",
        metavar="HOST:PORT",
        help="measure on the servers of this TVM RPC tracker; needs --key, --target with -mcpu",
    )
    parser.add_argument("--key", help="the servers' key at the tracker")


def open_fleet(options: argparse.Namespace, target: str) -> Fleet | None:
    """The fleet that the options ask for; ``None`` for this machine. Raises FleetError.

    Without --threads or -num-cores the networks run on as many threads as a server takes by itself.
    """
    if options.tracker is None and options.key is None:
        return None
    if options.tracker is None or not options.key:
        raise FleetError("--tracker HOST:PORT and --key KEY belong together")
    if options.workload:
        raise FleetError("--workload measures on this machine; --tracker takes networks")
    fleet = parse_fleet(options.tracker, options.key)
    if "-mcpu" not in target and '"mcpu"' not in target:
        raise FleetError("--tracker needs a --target that names the servers' CPU: llvm -mcpu=NAME")
    fleet.check()
    if not options.threads and "num-cores" not in target:
        threads.use_threads(fleet.threads())
    return fleet


def check_target(fleet: Fleet, target: CompileTarget) -> None:
    """Refuse a target that no linker here knows, or that a server's CPU cannot execute.

    An illegal instruction ends a server for good. Raises TargetError, FleetError.
    """
    find_linker(target.target)
    system = fleet.system()
    if system is None:
        return
    triple, cpu = system
    server = f"a server of {fleet} is a {cpu} ({triple})"
    wanted = arch_of(target.triple)
    if wanted != arch_of(triple):
        raise TargetError(f"{server}: it executes no code for {wanted}")
    theirs = Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu})
    # Others say how code is fast on a CPU: znver4 has no slow-3ops-lea.
    lacks = sorted((target.features & TRACKED_FEATURES) - features_of(theirs))
    if lacks:
        raise TargetError(f"{server}: it has no {', '.join(lacks[:8])}")
