"""The tuning session of a network, as the commands start one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tvm_neocpu.choose_plan import choose_plan, search_plan
from tvm_neocpu.folded_network import FoldedNetwork
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.in_network.processes.crew import Here, Site
from tvm_neocpu.tuning.in_network.report.progress import progress_for
from tvm_neocpu.tuning.seating import Choices
from tvm_neocpu.tuning.tune_network import TuningSession

# The share of a session's budget that one global search may take; most take milliseconds.
SOLVE_SHARE = 0.05


def network_session(
    open_network: Callable[[], FoldedNetwork],
    network: FoldedNetwork,
    known: History,
    log: Path,
    *,
    name: str = "",
    budget: float | None = None,
    choices: Choices | None = None,
    site: Site | None = None,
) -> TuningSession:
    """A session that starts from what builds take of ``known``, and writes to ``log``.

    ``network`` is what ``open_network`` opens. ``budget`` is in seconds, ``None`` for no limit. It
    tells stdout what it does.
    """
    cpu, graph = network.cpu, network.graph
    solve_seconds = None if budget is None else SOLVE_SHARE * budget
    return TuningSession(
        graph,
        cpu,
        open_network,
        partial(search_plan, graph, cpu, time_limit=solve_seconds),
        choose_plan(graph, cpu, known),
        known,
        TuningLog(log, cpu.features),
        seconds=budget,
        choices=choices or Choices(),
        progress=progress_for(sys.stdout),
        name=name,
        site=site or Here(),
    )
