"""Plans that may beat the incumbent: of confirmed ratios, built as they are, timed beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.in_network.contenders.measured_groups import TimedPlan, faster_groups
from tvm_neocpu.tuning.in_network.contenders.second_reading import FINALISTS, faster_again
from tvm_neocpu.tuning.in_network.processes.crew import Crew
from tvm_neocpu.tuning.in_network.processes.machine import Run, Scheme, seconds_of
from tvm_neocpu.tuning.in_network.processes.verify import may_gain
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.in_network.ratios import Ratio, over, paired
from tvm_neocpu.tuning.in_network.report.progress import Progress
from tvm_neocpu.tuning.in_network.rounds.beside import MakeRecord, beside_records
from tvm_neocpu.tuning.in_network.rounds.board import Board
from tvm_neocpu.tuning.in_network.rounds.rounds import Keep, record_of
from tvm_neocpu.tuning.measuring.child_process import ChildError

# Timed inferences of each contender.
RUNS = 12
# Searches, each with the transforms timed that the one before it asked for.
SEARCHES = 3

# The records that count -> a plan for the graph.
SearchRecords = Callable[[Sequence[Record]], Plan]
# A plan -> the plan with the groups that the cost model finds faster.
Regroup = Callable[[Plan], Plan]
# Whether a stand-in can have the config; others are measured in the plans that take them.
CanTime = Callable[[Workload, Config], bool]


@dataclass
class Contenders:
    """Finds plans by searching over the board.

    The workers hold the incumbent without groups, so that each of its layers is timed. Plans with
    groups are timed with and without them: a group stays where it ran faster than its layers.
    """

    graph: ConvGraph
    board: Board
    incumbent: Plan
    workers: Crew
    search: SearchRecords
    make_record: MakeRecord
    keep: Keep
    progress: Progress
    regroup: Regroup = lambda plan: plan
    can_time: CanTime = lambda workload, config: True
    timed: dict[str, TimedPlan] = field(default_factory=dict)

    def ask(self) -> int:
        """Search, and ask the board for what the plan takes unmeasured; how many configs these are.

        The search picks just those whose price is most below their true time.
        """
        plan = self.search(self._confirmed())
        count = 0
        for node in self.graph.convs:
            seat = None if node.workload is None else self.board.seats.get(node.workload)
            config = plan.configs[node.id]
            if seat is None or seat.knows(config) or config in seat.asked:
                continue
            if self.can_time(seat.workload, config):
                seat.asked.append(config)
                count += 1
        return count

    def find(self, time_left: Callable[[], bool]) -> list[tuple[Ratio, Plan]]:
        """Plans that ran faster than the incumbent beside it, twice; the fastest first.

        Their ratios are those of the second reading.
        """
        tried: dict[str, tuple[Ratio, Plan]] = {}
        seen: set[str] = set()
        wanted = [self.incumbent, self._replaced()]
        for _ in range(SEARCHES):
            wanted.append(self.search(self._confirmed()))
            variants = [variant for plan in wanted for variant in with_and_without(plan)]
            plans = {_text(plan): plan for plan in variants if _text(plan) not in seen}
            if not self.incumbent.groups:  # all others are timed beside it
                plans.pop(_text(self.incumbent), None)
            if not plans or not time_left():
                break
            seen |= plans.keys()
            new = list(plans.values())
            for first in range(0, len(new), len(self.workers)):
                timed = self._timed(new[first : first + len(self.workers)])
                tried |= {_text(plan): (ratio, plan) for ratio, plan in timed}
            wanted = self._regrouped(wanted)
        fastest = self._faster(tried)
        if not fastest or not time_left():
            return fastest[:1]
        found = faster_again(self.workers, self.incumbent, fastest)
        count = min(FINALISTS, len(fastest))
        self.progress.say(f"  {len(found)} of the {count} fastest are faster in a second reading")
        return found

    def _faster(self, tried: Mapping[str, tuple[Ratio, Plan]]) -> list[tuple[Ratio, Plan]]:
        """What may be faster than the incumbent with its groups, the fastest first."""
        ours, ratios = _text(self.incumbent), dict(tried)
        limit = ratios.pop(ours)[0] if ours in ratios else Ratio(0.0, 0.0)
        # A proof takes longer than all rounds of a small network: not for what it cannot show.
        against = [(over(ratio, limit), plan) for ratio, plan in ratios.values()]
        faster = [(ratio, plan) for ratio, plan in against if ratio.log < 0 and may_gain(ratio)]
        return sorted(faster, key=lambda pair: pair[0].log)

    def _regrouped(self, plans: Sequence[Plan]) -> list[Plan]:
        """Each plan that has groups, with those that ran faster than their layers one by one."""
        found = []
        for plan in {_text(plan): plan for plan in plans}.values():
            apart = self.timed.get(_text(replace(plan, groups=())))
            grouped = self.timed.get(_text(plan))
            if plan.groups and grouped is not None and apart is not None:
                groups = faster_groups(grouped, apart, self.graph)
                count, of = len(groups), len(plan.groups)
                self.progress.say(
                    f"  {count} of {of} groups of layers are faster than their layers"
                )
                found.append(replace(plan, groups=groups))
        return found

    def _timed(self, plans: list[Plan]) -> list[tuple[Ratio, Plan]]:
        """Each plan's network beside the incumbent's; its transforms and sweeps go to the log."""
        found = []
        problems = self.workers.build(plans, views=False)
        for index, (plan, problem) in enumerate(zip(plans, problems, strict=True)):
            try:
                if problem is not None:
                    raise problem
                runs = self.workers.times(index, RUNS)
                calls = self.workers.ask(index, "calls", STAND_IN)
            except ChildError as error:
                self.progress.say(f"  a plan does not build or run: {error}")
                continue
            ours, theirs = runs[STAND_IN], runs[INCUMBENT]
            self.timed[_text(plan)] = TimedPlan(plan, ours, theirs)
            mine, other = ([sum(run.values()) for run in each] for each in (ours, theirs))
            drift = self.board.network_seconds / median(other)
            for record in beside_records(ours, calls, drift, self.make_record):
                self.board.beside[record.workload] = record
                self.keep(record)
            self._hear(ours, theirs, calls)
            ratio = paired(mine, other)
            self.progress.say(f"  a plan ({plan.method}) takes {ratio} of the time")
            found.append((ratio, plan))
        return found

    def _hear(
        self, ours: Sequence[Run], theirs: Sequence[Run], calls: Mapping[Scheme, int]
    ) -> None:
        """What the layers took in a real build is as good a reading as in a stand-in."""
        for (workload, config), count in calls.items():
            seat = self.board.seats.get(workload)
            if seat is None or config in seat.incumbent:
                continue
            mine = [run[workload, config] / count for run in ours]
            other = [seconds_of(workload, run) / seat.calls for run in theirs]
            if seat.hear(config, paired(mine, other)):
                self.keep(record_of(seat, config, self.make_record))

    def _confirmed(self) -> list[Record]:
        """What the search may believe: confirmed ratios, others at no less than the best of these.

        The first reading of a candidate is too good where it is good.
        """
        records = list(self.board.beside.values())
        for seat in self.board.seats.values():
            best = seat.best
            seconds = {
                config: estimate.ratio.value if estimate.confirmed else estimate.ratio.high
                for config, estimate in seat.estimates.items()
            }
            seconds = {config: max(ratio, best) for config, ratio in seconds.items()}
            seconds |= dict.fromkeys(seat.incumbent, 1.0)
            for config, ratio in seconds.items():
                cost = (seat.seconds * ratio,)
                records.append(self.make_record(seat.workload, config, cost, 0))
            records += [self.make_record(seat.workload, config, (), 1) for config in seat.failed]
        return records

    def _replaced(self) -> Plan:
        """The incumbent's layouts, with the best confirmed config that has them at each node."""
        configs: dict[str, Config] = {}
        for node in self.graph.convs:
            mine = self.incumbent.configs[node.id]
            seat = None if node.workload is None else self.board.seats.get(node.workload)
            leader = None if seat is None else seat.leaders().get(layouts_of(mine))
            if seat is not None and leader in seat.estimates:
                assert leader is not None
                mine = leader if seat.estimates[leader].ratio.high < 1 else mine
            configs[node.id] = mine
        # Bands of the incumbent's groups may be none of other tiles.
        return self.regroup(replace(self.incumbent, configs=configs, method="replaced"))


def _text(plan: Plan) -> str:
    """Equal for plans that decide alike."""
    configs = sorted((id, str(config)) for id, config in plan.configs.items())
    groups = sorted(plan.groups or ())
    return repr((configs, sorted((id, str(layout)) for id, layout in plan.joins.items()), groups))


def with_and_without(plan: Plan) -> tuple[Plan, ...]:
    """A plan with its groups, and with its layers one by one: what is proven says which it is."""
    apart = replace(plan, groups=())
    return (plan, apart) if plan.groups else (apart,)
