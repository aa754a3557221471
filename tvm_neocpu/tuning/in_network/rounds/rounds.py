"""Rounds of stand-ins: one candidate of each open workload in each process, built, then timed.

A round that fails as a whole is tried again in halves, until the candidate that crashes, hangs or
cannot be compiled stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.in_network.processes.crew import Crew
from tvm_neocpu.tuning.in_network.processes.machine import Run, seconds_of
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.in_network.ratios import Ratio, paired
from tvm_neocpu.tuning.in_network.rounds.beside import MakeRecord, beside_in, beside_records
from tvm_neocpu.tuning.in_network.rounds.board import Board, Seat
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns
from tvm_neocpu.tuning.measuring.child_process import ChildDied, ChildError
from tvm_neocpu.tuning.measuring.measurer import MeasureErrorNo

# Proposals of a tuner among which one must fit the layouts of the round.
CHOICES = 32
# A round's timing takes about this long, and between these numbers of paired runs.
TURN_SECONDS, MIN_PAIRS, MAX_PAIRS = 0.5, 5, 15

Keep = Callable[[Record], None]
# Workload -> the configs to try, the most wanted first.
Wishes = Mapping[Workload, Sequence[Config]]


@dataclass(frozen=True)
class _Turn:
    """What one process does in a round; the candidates of ``granted`` are what it is about."""

    plan: Plan
    configs: Mapping[Workload | None, Config]
    granted: set[Workload]

    @property
    def about(self) -> dict[Workload, Config]:
        return {workload: self.configs[workload] for workload in self.granted}


@dataclass
class Rounds:
    """Plays rounds on a board; ``keep`` is given a record of every candidate measured or failed.

    ``spares`` are configs of each workload for rounds that are not about it, at least one for every
    layout pair.
    """

    board: Board
    workers: Crew
    stand_ins: StandIns
    incumbent: Plan
    spares: Wishes
    keep: Keep
    make_record: MakeRecord
    _retry: list[dict[Workload, list[Config]]] = field(default_factory=list)

    def play(self) -> bool:
        """One round in all processes; False if no candidate is left.

        A round that only narrowed down what fails has measured nothing, and is not the last.
        """
        turns = self._turns()
        if not turns:
            return False
        problems = self.workers.build([turn.plan for turn in turns], views=True)
        for index, (turn, problem) in enumerate(zip(turns, problems, strict=True)):
            try:
                if problem is not None:
                    raise problem
                runs = self.workers.times(index, self._pairs())
            except ChildError as error:
                self._blame(turn.about, error)
                continue
            self._hear(turn, runs[STAND_IN], runs[INCUMBENT])
            self._hear_beside(index, runs[STAND_IN], runs[INCUMBENT])
        return True

    def _hear_beside(self, index: int, ours: Sequence[Run], theirs: Sequence[Run]) -> None:
        """Write down sweeps in layouts in which nobody timed them yet."""
        known = self.board.beside
        if not ours or beside_in(ours[0]) <= known.keys():
            return
        try:
            calls = self.workers.ask(index, "calls", STAND_IN)
        except ChildError:
            return  # the next round starts its process again, and finds the same sweeps
        drift = self.board.network_seconds / median(sum(run.values()) for run in theirs)
        for record in beside_records(ours, calls, drift, self.make_record):
            if record.workload not in known:
                known[record.workload] = record
                self.keep(record)

    def _turns(self) -> list[_Turn]:
        """One for each process."""
        turns: list[_Turn] = []
        taken: set[Config] = set()
        # A layer in a branch that is not taken has no seat, and a config like all others.
        spares = self._at_first | {
            workload: seat.spares(self.spares[workload])
            for workload, seat in self.board.seats.items()
        }
        while len(turns) < len(self.workers):
            wishes = self._retry.pop() if self._retry else self._wishes(taken)
            if not wishes:
                break
            plan, granted = self.stand_ins.plan(self.incumbent, wishes, spares)
            configs = {node.workload: plan.configs[node.id] for node in self.stand_ins.convs}
            if not granted:
                break
            turns.append(_Turn(plan, configs, granted))
            taken |= set(turns[-1].about.values())
        return turns

    @property
    def _at_first(self) -> dict[Workload, list[Config]]:
        """What the incumbent has for each workload, and the configs for any layouts."""
        found: dict[Workload, dict[Config, None]] = {}
        for node in self.stand_ins.convs:
            if node.workload is not None:
                found.setdefault(node.workload, {})[self.incumbent.configs[node.id]] = None
        return {w: [*dict.fromkeys([*mine, *self.spares[w]])] for w, mine in found.items()}

    def _wishes(self, taken: set[Config]) -> dict[Workload, list[Config]]:
        wishes = {}
        for seat in self.board.open:
            wanted = [config for config in seat.wishes(CHOICES) if config not in taken]
            if wanted:
                wishes[seat.workload] = wanted
        return wishes

    def _pairs(self) -> int:
        return max(MIN_PAIRS, min(MAX_PAIRS, int(TURN_SECONDS / 2 / self.workers.baseline)))

    def _hear(self, turn: _Turn, ours: Sequence[Run], theirs: Sequence[Run]) -> None:
        """Take in the ratios of a round, of the spares too."""
        for workload, seat in self.board.seats.items():
            ratio = workload_ratio(workload, ours, theirs)
            config = turn.configs[workload]
            if ratio is None or config in seat.failed:
                continue
            if seat.hear(config, ratio) and config not in seat.incumbent:
                self.keep(record_of(seat, config, self.make_record))

    def _blame(self, about: Mapping[Workload, Config], error: ChildError) -> None:
        """Halve a round that failed; give up the candidate that fails alone."""
        suspects = list(about.items())
        if len(suspects) > 1:
            middle = len(suspects) // 2
            for half in (suspects[:middle], suspects[middle:]):
                self._retry.append({workload: [config] for workload, config in half})
            return
        ((workload, config),) = suspects
        self.board.seats[workload].fail(config, str(error))
        self.keep(self.make_record(workload, config, (), error_number(error)))


def record_of(seat: Seat, config: Config, make_record: MakeRecord) -> Record:
    """What the session knows of a candidate, to be written down."""
    estimate = seat.estimates[config]
    ratio = estimate.ratio
    costs = [seat.unit * value for value in (ratio.low, ratio.value, ratio.high)]
    made = make_record(seat.workload, config, costs, MeasureErrorNo.NO_ERROR)
    return replace(made, readings=estimate.count)


def workload_ratio(workload: Workload, ours: Sequence[Run], theirs: Sequence[Run]) -> Ratio | None:
    """The time of a workload's calls in one network over that in another, run by run."""
    mine = [seconds_of(workload, run) for run in ours]
    other = [seconds_of(workload, run) for run in theirs]
    if not all(mine) or not all(other):
        return None
    return paired(mine, other)


def error_number(error: ChildError) -> MeasureErrorNo:
    """AutoTVM's number for what happened to a candidate."""
    if isinstance(error, ChildDied):
        return MeasureErrorNo.RUN_TIMEOUT if error.hung else MeasureErrorNo.RUNTIME_DEVICE
    built = error.kind in ("TemplateError", "ScheduleError", "ConfigError", "PlanError")
    return MeasureErrorNo.INSTANTIATION_ERROR if built else MeasureErrorNo.COMPILE_HOST
