"""Tune one network: candidates timed inside it, a plan from what they take, a proof before it counts.

    board      a seat for each workload, with its tuner and the ratios of its candidates
    rounds     stand-ins: one candidate of every open workload, compiled and timed in the network
    contenders what the global search makes of the confirmed ratios, and the incumbent with its
               configs replaced; built as they are, timed beside the incumbent
    proof      the best contender against the incumbent in fresh processes, in turns, until the
               interval of their ratio is clear of 1; otherwise the incumbent stays

The global search and the way to lower a plan are passed in, since tuning imports neither.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm_neocpu.core.candidate import layouts_of
from tvm_neocpu.core.child_process import ChildError
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.cost.ranking import best_per_layout, predict_seconds
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import LogContents, TuningLog
from tvm_neocpu.tuning.in_network.board import Board, Estimate, Seat
from tvm_neocpu.tuning.in_network.machine import Lowering, Run, Scheme
from tvm_neocpu.tuning.in_network.progress import NoProgress, Progress, State
from tvm_neocpu.tuning.in_network.ratios import Ratio, paired
from tvm_neocpu.tuning.in_network.rounds import Rounds
from tvm_neocpu.tuning.in_network.stand_ins import StandIns
from tvm_neocpu.tuning.in_network.verify import Proof, prove
from tvm_neocpu.tuning.in_network.workers import INCUMBENT, STAND_IN, Workers
from tvm_neocpu.tuning.local_search.interrupt import Interrupts
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tasks import tasks_of
from tvm_neocpu.tuning.tuners import TUNERS, Ranker, TunerFactory, learned

# What is known so far -> a plan for the graph.
Search = Callable[[History], Plan]

# Timed inferences of the incumbent that say what its layers take, and of each contender.
REFERENCE_RUNS, CONTENDER_RUNS = 10, 12
# Searches, each with the transforms timed that the one before it asked for.
SEARCHES = 3
# The proof needs two builds and some seconds of turns; contenders need about two builds as well.
PROOF_BUILDS, CONTENDER_BUILDS, PROOF_SECONDS = 1.5, 2.0, 12.0
# The log-error of a ratio that another session confirmed: its clock and its incumbent were others.
RESUMED_ERROR = 0.01
# Records of other networks that teach the ranker, the latest ones.
LESSONS = 4000


@dataclass(frozen=True)
class Limits:
    """``seconds`` bounds the call, ``trials`` the candidates of a workload; None: no bound."""

    seconds: float | None = None
    trials: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What a session ended with. ``plan`` is what builds take now; ``None`` after an interrupt."""

    plan: Plan | None
    measured: int
    failed: int
    seconds: float
    proof: Proof | None = None
    settled: bool = False
    interrupted: bool = False

    @property
    def improved(self) -> bool:
        return self.proof is not None and self.proof.faster

    def __str__(self) -> str:
        if self.interrupted:
            return f"interrupted after {self.measured} candidates; run again to go on"
        if self.proof is not None and self.proof.faster:
            ratio = self.proof.ratio
            gain = f"{1 / ratio.value:.2f}x faster ({1 / ratio.high:.2f}-{1 / ratio.low:.2f})"
            return f"{gain} after {self.measured} candidates"
        how = "already at its best" if self.settled else "no better plan found"
        near = ""
        if self.proof is not None:
            ratio = self.proof.ratio
            near = f": the best other plan takes {ratio.value:.3f} ({ratio.low:.3f}-{ratio.high:.3f})"
        return f"{how}{near} after {self.measured} candidates"


@dataclass
class TuningSession:
    """One network on one machine; :meth:`run` does it all.

    ``incumbent`` is the plan that a build takes today; ``known`` what logs know of the network's
    workloads on this CPU and thread count. ``resume`` takes their ratios as confirmed.
    """

    graph: ConvGraph
    cpu: Cpu
    open_network: Callable[[], Lowering]
    search: Search
    incumbent: Plan
    known: History
    log: TuningLog
    limits: Limits = field(default_factory=Limits)
    tuner: str = next(iter(TUNERS))
    seed: int = 0
    resume: bool = True
    exhaustive: bool = False
    progress: Progress = field(default_factory=NoProgress)

    def run(self) -> Outcome:
        """Tune, prove, log the plan. Raises LogError if the log cannot be written, ChildError if
        the network as it is does not build or run."""
        self.log.check_writable()
        self._start = time.monotonic()
        self._interrupts = Interrupts()
        self._transforms: dict[Workload, Record] = {}
        self._board = Board({}, 0.0)
        try:
            with self._interrupts:
                return self._tuned()
        except KeyboardInterrupt:
            return self._outcome(None, None, interrupted=True)
        finally:
            self.progress.close()

    def _tuned(self) -> Outcome:
        with Workers(self.open_network, _processes(), self.cpu.cores) as workers:
            self.progress.say("building the network as it is")
            workers.start(self.incumbent)
            self._startup = time.monotonic() - self._start
            self._board = self._seated(workers)
            self._search_candidates(workers)
            self.progress.say(f"  {self._state()}")
            contenders = self._contenders(workers)
        proof, plan = self._proven(contenders)
        with self._interrupts.held():
            self.log.append_plan(plan, self.graph, self.cpu.name, self.cpu.cores)
        return self._outcome(plan, proof)

    # -- the board ------------------------------------------------------------------------------

    def _seated(self, workers: Workers) -> Board:
        """A seat for each workload, with what its calls take in the network as it is."""
        runs: list[Run] = workers.ask(0, "times", (INCUMBENT,), REFERENCE_RUNS)[INCUMBENT]
        calls: dict[Scheme, int] = workers.ask(0, "calls", INCUMBENT)
        network = _median([sum(run.values()) for run in runs])
        tasks = [task for task in tasks_of(self.graph, self.cpu) if task.space]
        make_tuner = self._tuners(tasks)
        seats = {}
        for task in tasks:
            count = sum(n for scheme, n in calls.items() if scheme[0] == task.workload)
            if not count:  # nothing of the network is computed by this workload's templates
                continue
            total = _median([_seconds_of(task.workload, run) for run in runs])
            configs = frozenset(
                self.incumbent.configs[node.id]
                for node in self.graph.convs
                if node.workload == task.workload
            )
            seat = Seat(task, make_tuner(task), configs, total / count, total / network)
            self._resume_seat(seat)
            seats[task.workload] = seat
            self._keep_incumbent(seat)
        return Board(seats, network)

    def _tuners(self, tasks: Sequence[Task]) -> TunerFactory:
        if self.exhaustive:
            return TUNERS["grid"](tasks, self.seed)
        if self.tuner != "learned":
            return TUNERS[self.tuner](tasks, self.seed)
        ranker = Ranker([(task.workload, task.space) for task in tasks])
        own = {task.workload for task in tasks}
        lessons = [r for log in self.known.logs for r in log.records if self._teaches(r, own)]
        for record in lessons[-LESSONS:]:
            predicted = predict_seconds(record.workload, record.config, self.cpu)
            ranker.learn(record.workload, record.config, predicted, record.seconds)
        return learned(tasks, self.seed, ranker)

    def _teaches(self, record: Record, own: set[Workload]) -> bool:
        """Whether a record is of another network's workload, on this machine."""
        same = (record.cpu, record.threads) == (self.cpu.name, self.cpu.cores)
        moved = isinstance(record.workload, TransformWorkload)
        return same and record.ok and not moved and record.workload not in own

    def _resume_seat(self, seat: Seat) -> None:
        """Ratios that logs know count as confirmed, against their own record of the incumbent."""
        if not self.resume:
            return
        records = {r.config: r for r in self.known.tried((seat.workload,)).get(seat.workload, ())}
        before = [records[c].seconds for c in seat.incumbent if c in records and records[c].ok]
        space = set(seat.task.space)
        for config, record in records.items():
            if config in seat.incumbent or config not in space:
                continue
            if not record.ok:
                seat.fail(config, "failed before")
            elif before:
                ratio = Ratio(math.log(record.seconds / min(before)), RESUMED_ERROR)
                seat.estimates[config] = Estimate([ratio], resumed=True)
                seat.tuner.observe(config, seat.seconds * ratio.value)

    def _keep_incumbent(self, seat: Seat) -> None:
        """The incumbent's own time, against which the ratios in the log are read."""
        for config in seat.incumbent:
            seat.tuner.observe(config, seat.seconds)
            self._keep(self._record(seat.workload, config, (seat.seconds,), 0))

    # -- the rounds -----------------------------------------------------------------------------

    def _search_candidates(self, workers: Workers) -> None:
        rounds = Rounds(
            self._board,
            workers,
            StandIns(self.graph),
            self.incumbent,
            {w: [c.config for c in best_per_layout(w, self.cpu)] for w in self.graph.workloads},
            self._keep,
            self._record,
        )
        about = len(self._board.seats)
        self.progress.say(f"tuning {about} layers of {1e3 * self._board.network_seconds:.2f} ms")
        while self._time_for_rounds() > 0 and self._open():
            if not rounds.play():
                break
            self.progress.update(self._state())

    def _open(self) -> list[Seat]:
        limit = self.limits.trials
        if limit is None:
            return self._board.open
        return [seat for seat in self._board.open if len(seat.estimates) < limit]

    def _time_for_rounds(self) -> float:
        """Seconds left before contenders must be built."""
        reserve = self._startup * (PROOF_BUILDS + CONTENDER_BUILDS) + PROOF_SECONDS
        return self._left() - reserve

    def _left(self) -> float:
        if self.limits.seconds is None:
            return math.inf
        return self.limits.seconds - (time.monotonic() - self._start)

    # -- contenders -----------------------------------------------------------------------------

    def _contenders(self, workers: Workers) -> list[tuple[Ratio, Plan]]:
        """Plans that ran faster than the incumbent beside it, the fastest first."""
        tried: dict[str, Plan] = {}
        found: list[tuple[Ratio, Plan]] = []
        for attempt in range(SEARCHES):
            wanted = [self.search(self._confirmed())]
            wanted += [self._replaced()] * (attempt == 0)
            plans = [plan for plan in wanted if self._is_new(plan, tried)]
            if not plans or self._left() < self._startup * PROOF_BUILDS + PROOF_SECONDS:
                break
            for first in range(0, len(plans), len(workers)):
                found += self._timed(workers, plans[first : first + len(workers)])
        faster = [(ratio, plan) for ratio, plan in found if ratio.value < 1]
        return sorted(faster, key=lambda pair: pair[0].value)

    def _is_new(self, plan: Plan, tried: dict[str, Plan]) -> bool:
        """Whether a plan differs from the incumbent and from those before it."""
        if not tried:
            tried[_text(self.incumbent)] = self.incumbent
        return tried.setdefault(_text(plan), plan) is plan

    def _timed(self, workers: Workers, plans: list[Plan]) -> list[tuple[Ratio, Plan]]:
        """Each plan's network beside the incumbent's; its transforms go to the log."""
        found = []
        problems = workers.build(plans, views=False)
        for index, (plan, problem) in enumerate(zip(plans, problems, strict=True)):
            if problem is not None:
                self.progress.say(f"  a plan could not be built: {problem}")
                continue
            try:
                runs = workers.times(index, CONTENDER_RUNS)
                calls = workers.ask(index, "calls", STAND_IN)
            except ChildError as error:
                self.progress.say(f"  a plan could not be run: {error}")
                continue
            ours, theirs = runs[STAND_IN], runs[INCUMBENT]
            whole = [[sum(run.values()) for run in each] for each in (ours, theirs)]
            drift = self._board.network_seconds / _median(whole[1])
            self._keep_transforms(ours, calls, drift)
            found.append((paired(whole[0], whole[1]), plan))
        return found

    def _keep_transforms(
        self, runs: Sequence[Run], calls: Mapping[Scheme, int], drift: float
    ) -> None:
        for (workload, config), count in calls.items():
            if isinstance(workload, TransformWorkload):
                seconds = drift * _median([_seconds_of(workload, run) for run in runs]) / count
                record = self._record(workload, config, (seconds,), 0)
                self._transforms[workload] = record
                self._keep(record)

    def _confirmed(self) -> History:
        """What the search may believe: confirmed ratios; others at no less than the best of these."""
        records = list(self._transforms.values())
        records += [
            record
            for found in self.known.transforms(self.graph).values()
            for record in found
            if record.workload not in self._transforms
        ]
        for seat in self._board.seats.values():
            best = min(1.0, seat.best)
            for config, estimate in seat.estimates.items():
                ratio = estimate.ratio.value if estimate.confirmed else estimate.ratio.high
                seconds = seat.seconds * max(ratio, best)
                records.append(self._record(seat.workload, config, (seconds,), 0))
            for config in seat.failed:
                records.append(self._record(seat.workload, config, (), 1))
            for config in seat.incumbent:
                records.append(self._record(seat.workload, config, (seat.seconds,), 0))
        return History(self.cpu.name, self.cpu.cores, (LogContents(records=tuple(records)),))

    def _replaced(self) -> Plan:
        """The incumbent's layouts, with the best confirmed config that has them at each node."""
        configs: dict[str, Config] = {}
        for node in self.graph.convs:
            mine = self.incumbent.configs[node.id]
            seat = None if node.workload is None else self._board.seats.get(node.workload)
            leader = None if seat is None else seat.leaders().get(layouts_of(mine))
            if seat is not None and leader is not None:
                known = seat.estimates.get(leader)
                if known is not None and known.ratio.high < 1:
                    mine = leader
            configs[node.id] = mine
        return replace(self.incumbent, configs=configs, method="replaced")

    # -- the end --------------------------------------------------------------------------------

    def _proven(self, contenders: Sequence[tuple[Ratio, Plan]]) -> tuple[Proof | None, Plan]:
        """The first contender that is proven faster, else the incumbent."""
        proof = None
        for ratio, plan in contenders:
            seconds = max(PROOF_SECONDS, self._left())
            expected = f"{1 / ratio.value:.3f}x"
            self.progress.say(f"proving a plan that ran {expected} as fast, in fresh processes")
            proof = prove(self.open_network, self.incumbent, plan, self.cpu.cores, seconds)
            if proof.faster:
                seconds = self._board.network_seconds * proof.ratio.value
                return proof, replace(plan, seconds=seconds)
            if not proof.right:
                self.progress.say(f"  its outputs are off by {proof.error:.1e}: not used")
            if self._left() < self._startup * PROOF_BUILDS + PROOF_SECONDS:
                break
        return proof, self.incumbent

    def _outcome(self, plan: Plan | None, proof: Proof | None, interrupted: bool = False) -> Outcome:
        board = self._board
        seconds = time.monotonic() - self._start
        settled = bool(board.seats) and not board.open
        return Outcome(plan, board.measured, board.failed, seconds, proof, settled, interrupted)

    def _state(self) -> State:
        open_ = self._board.open
        left = self._left()
        return State(
            self._board.network_seconds,
            self._board.gain,
            self._board.measured,
            self._board.failed,
            len(open_),
            len(self._board.seats) - len(open_),
            time.monotonic() - self._start,
            None if left == math.inf else left,
            tuple(str(seat.workload) for seat in open_[:3]),
        )

    def _keep(self, record: Record) -> None:
        with self._interrupts.held():
            self.log.append(record)

    def _record(
        self, workload: Workload, config: Config, costs: Sequence[float], error_no: int
    ) -> Record:
        return Record(
            workload,
            config,
            tuple(costs),
            self.cpu.name,
            self.cpu.cores,
            error_no=int(error_no),
            timestamp=time.time(),
        )


def _processes() -> int:
    """Builds run in parallel, one on each core that the process may use; more than four wait."""
    return max(1, min(4, len(os.sched_getaffinity(0))))


def _seconds_of(workload: Workload, run: Run) -> float:
    return sum(seconds for scheme, seconds in run.items() if scheme and scheme[0] == workload)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _text(plan: Plan) -> str:
    """Equal for plans that decide alike."""
    configs = sorted((id, str(config)) for id, config in plan.configs.items())
    return repr((configs, sorted((id, str(layout)) for id, layout in plan.joins.items())))
