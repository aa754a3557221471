"""The second reading of plans that looked fast: whole inferences, in every process of the crew.

The first reading of a plan comes from one process, in which either network may have found a better
place in memory than the other, and the plan with the best of them is taken: it is too good to be
true. A second one is free of that choice, and takes a tenth of a proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.processes.crew import Crew
from tvm_neocpu.tuning.in_network.processes.verify import may_gain
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.in_network.ratios import Ratio, combined, over, paired
from tvm_neocpu.tuning.measuring.child_process import ChildError

# So many plans are read again. A process takes about so many seconds for a plan, in turns of two
# inferences of each network, of which one counts.
FINALISTS = 3
READ_SECONDS, MIN_TURNS, MAX_TURNS = 0.6, 6, 40
# A plan that gains less than this share is none to be proven.
LEAST_GAIN = 0.005

Contender = tuple[Ratio, Plan]


def faster_again(
    workers: Crew, incumbent: Plan, contenders: Sequence[Contender]
) -> list[Contender]:
    """Those of the first contenders that are faster in a second reading, the fastest first.

    The processes hold the incumbent without its groups. One that has groups is read as the
    contenders are, and they are compared with it process by process.
    """
    chosen = [plan for _, plan in contenders[:FINALISTS]]
    if not chosen:
        return []
    count = len(workers)  # a fleet may lose servers, and find others, on the way
    own: list[Ratio | None] = [Ratio(0.0, 0.0)] * count
    if incumbent.groups:
        own = _read(workers, incumbent, count)
    found = []
    for plan in chosen:
        pairs = zip(_read(workers, plan, count), own, strict=True)
        ratios = [over(one, other) for one, other in pairs if one and other]
        if not ratios:
            continue
        ratio = combined(ratios)
        if ratio.log < math.log(1 - LEAST_GAIN) and may_gain(ratio):
            found.append((ratio, plan))
    return sorted(found, key=lambda pair: pair[0].log)


def _read(workers: Crew, plan: Plan, count: int) -> list[Ratio | None]:
    """The plan over the incumbent without groups, in so many processes; ``None`` where it fails."""
    turns = int(READ_SECONDS / (4 * workers.baseline))
    turns = max(MIN_TURNS, min(MAX_TURNS, turns))
    found: list[Ratio | None] = []
    for index, problem in enumerate(workers.build([plan] * count, views=False)):
        ratio = None
        if problem is None:
            try:
                times = workers.ask(index, "whole", (STAND_IN, INCUMBENT), turns)
                ratio = paired(times[STAND_IN], times[INCUMBENT])
            except ChildError:
                pass  # its first reading told of it, or its proof will
        found.append(ratio)
    return found
