"""Tune one network: candidates timed inside it, a plan from what they take, then a proof.

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
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import HELD, Plan
from tvm_neocpu.core.network.record import IN_NETWORK, Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.lines.staleness import record_stamp
from tvm_neocpu.tuning.database.log import LogContents, TuningLog
from tvm_neocpu.tuning.database.turns import measuring_turn
from tvm_neocpu.tuning.group_candidates import with_doubtful_groups, with_groups
from tvm_neocpu.tuning.in_network.contenders.contenders import Contenders
from tvm_neocpu.tuning.in_network.contenders.proofs import Proofs
from tvm_neocpu.tuning.in_network.contenders.reserve import Pace, Reserve, about_the_start
from tvm_neocpu.tuning.in_network.processes.crew import Crew, Here, Site
from tvm_neocpu.tuning.in_network.processes.machine import Lowering
from tvm_neocpu.tuning.in_network.processes.verify import Proof
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.report.findings import verdict_of
from tvm_neocpu.tuning.in_network.report.outcome import Outcome
from tvm_neocpu.tuning.in_network.report.progress import NoProgress, Progress, State
from tvm_neocpu.tuning.in_network.report.spent import PROOF, SEARCH, START, ClockedCrew, Spent
from tvm_neocpu.tuning.in_network.rounds.board import Board
from tvm_neocpu.tuning.in_network.rounds.rounds import Rounds
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns
from tvm_neocpu.tuning.local_search.interrupt import Interrupts
from tvm_neocpu.tuning.seating import Choices, make_tuners, seated, timeable
from tvm_neocpu.tuning.tasks import tasks_of, with_operators

# What is known so far -> a plan for the graph.
Search = Callable[[History], Plan]

# How often the search may ask for what its plan takes unmeasured.
QUESTIONS = 12


@dataclass
class TuningSession:
    """One network on one machine; :meth:`run` does it all.

    ``incumbent`` is the plan that a build takes today; ``known`` what logs know of the network's
    workloads on this CPU and thread count. ``seconds`` bounds the session; None: until all is
    settled.
    """

    graph: ConvGraph
    cpu: Cpu
    open_network: Callable[[], Lowering]
    search: Search
    incumbent: Plan
    known: History
    log: TuningLog
    seconds: float | None = None
    choices: Choices = field(default_factory=Choices)
    progress: Progress = field(default_factory=NoProgress)
    name: str = ""
    site: Site = field(default_factory=Here)

    def run(self) -> Outcome:
        """Tune, prove, log the plan. Raises LogError if the log cannot be written, ChildError if
        the network as it is does not build or run."""
        self.log.check_writable()
        self._start = time.monotonic()
        self._interrupts = Interrupts()
        self._open = with_operators(self.open_network)
        self._board = Board({}, 0.0)
        self._stand_ins = StandIns(self.graph)
        self._spent = Spent()
        try:
            with self._interrupts, measuring_turn(self.progress.say):
                self._start = time.monotonic()
                return self._tuned()
        except KeyboardInterrupt:
            return self._outcome(None, None, interrupted=True)
        finally:
            self.progress.close()

    def _tuned(self) -> Outcome:
        with self.site.crew(self._open, self.cpu.cores) as crew:
            workers = ClockedCrew(crew, self._spent)
            with self._spent.on(START):
                started = self._start_up(workers)
            if not started:
                return self._outcome(None, None, started=False)
            with self._spent.on(SEARCH):
                found = self._contenders(workers)
        with self._spent.on(PROOF):
            proof, plan = self._proofs().first_faster(found, self._left, self._reserve.proof)
        seconds = self.seconds
        if seconds is None or self.choices.trials is not None:
            seconds = self._elapsed()  # --trials may have ended it: nothing is said of the rest
        verdict = verdict_of(self._board, self.graph, self.cpu, plan, proof, self.name, seconds)
        with self._interrupts.held():
            self.log.append_plan(plan, self.graph, self.cpu.name, self.cpu.cores)
            self.log.append_verdict(verdict)
        return self._outcome(plan, proof)

    def _start_up(self, workers: Crew) -> bool:
        """The network as it is, compiled and timed in every process; a seat for each layer.

        False if the session's time is over before it is compiled: what LLVM wrote until then is
        kept on disk.
        """
        self.progress.say("building the network as it is")
        tasks = [task for task in tasks_of(self.graph, self.cpu) if task.space]
        pool = ThreadPoolExecutor(1)
        try:
            # A layer inside a group could not be timed.
            starting = pool.submit(workers.start, replace(self.incumbent, groups=()))
            searched = [timeable(task, self._stand_ins) for task in tasks]
            tuners = make_tuners(searched, self.choices, self.known, self.cpu)
            for tuner in tuners.values():
                tuner.promise()  # which sorts its candidates: seconds for 70,000
            left = self._left()
            wait([starting], None if left == math.inf else max(0.0, left))
            if not starting.done():
                return False
            starting.result()
        finally:
            pool.shutdown(wait=False)  # after Ctrl-C the crew's end stops it, not the built network
        startup = self._elapsed()
        kept: float = workers.ask(0, "kept_seconds", INCUMBENT)
        self._reserve = Reserve.fitting(max(0.0, startup - kept), self._left())
        if about := about_the_start(self._reserve, self._left()):
            self.progress.say(about)
        self._board = seated(
            tasks,
            tuners,
            self.graph,
            self.incumbent,
            workers,
            self.known,
            self.choices,
            self._record,
        )
        self._hold_incumbent()
        self._keep_incumbents()
        return True

    def _contenders(self, workers: Crew) -> list[tuple[Ratio, Plan]]:
        """Play rounds while there is time; then the plans that ran faster than the incumbent.

        Where none did, the time that was kept for a proof goes back to the rounds; so it does where
        what the contenders took opened layers again.
        """
        contenders = Contenders(
            self.graph,
            self._board,
            self.incumbent,
            workers,
            self._search_records,
            self._record,
            self._keep,
            self.progress,
            self._regrouped,
            self._stand_ins.can_time,
        )
        while True:
            before = self._board.measured
            was_cut = self._search_candidates(workers, contenders)
            self.progress.say(f"  {self._state()}")
            found = contenders.find(Pace(lambda: self._left() - self._reserve.proof).allows)
            goes_on = was_cut or (self._board.open and self._time_for_rounds() > 0)
            if found or not goes_on or self._board.measured == before:
                return found
            self._reserve = Reserve.fitting(self._reserve.build, self._left())

    def _hold_incumbent(self) -> None:
        """Builds stay as they are until a plan is proven, however the session ends: a build that
        finds records and no plan would search among them."""
        logged = self.known.plan(self.graph)
        if logged is not None and logged.configs == self.incumbent.configs:
            return
        # A logged plan that no build can use any more would count instead of a held one.
        held = replace(self.incumbent, method=HELD) if logged is None else self.incumbent
        with self._interrupts.held():
            self.log.append_plan(held, self.graph, self.cpu.name, self.cpu.cores)

    def _keep_incumbents(self) -> None:
        """The incumbent's own times, against which the ratios in the log are read."""
        for record in self._board.beside.values():
            self._keep(record)
        for seat in self._board.seats.values():
            if seat.unit != seat.seconds:  # a log has its time
                continue
            for config in seat.incumbent:
                self._keep(self._record(seat.workload, config, (seat.seconds,), 0))

    # -- the rounds -----------------------------------------------------------------------------

    def _search_candidates(self, workers: Crew, contenders: Contenders) -> bool:
        """Whether the time for rounds was over with layers still open."""
        rounds = Rounds(
            self._board,
            workers,
            self._stand_ins,
            self.incumbent,
            {w: [c.config for c in best_per_layout(w, self.cpu)] for w in self.graph.workloads},
            self._keep,
            self._record,
        )
        about = plural(len(self._board.seats), "layer")
        self.progress.say(f"tuning {about} of {1e3 * self._board.network_seconds:.2f} ms")
        pace = Pace(self._time_for_rounds)
        for _ in range(QUESTIONS):
            while (goes_on := pace.allows()) and rounds.play():
                self.progress.update(self._state())
            if not goes_on:
                return bool(self._board.open)
            if not contenders.ask():
                break
        return False

    def _time_for_rounds(self) -> float:
        """Seconds left before contenders must be built."""
        return self._left() - self._reserve.seconds

    def _left(self) -> float:
        if self.seconds is None:
            return math.inf
        return self.seconds - self._elapsed()

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _search_records(self, records: Sequence[Record]) -> Plan:
        """The global search over these records, and over what logs know of transforms and sweeps.

        Those that were timed in the session count instead. Doubtful groups are in, to be measured.
        """
        logged = self.known.transforms(self.graph) | self.known.sweeps(self.graph)
        timed = {record.workload for record in records}
        known = [r for w, found in logged.items() if w not in timed for r in found]
        log = LogContents((*known, *records))
        features = self.cpu.features
        found = self.search(History(self.cpu.name, self.cpu.cores, (log,), features=features))
        return with_doubtful_groups(found, self.graph, self.cpu)

    def _regrouped(self, plan: Plan) -> Plan:
        """The plan's configs with all groups that may be faster: each is measured."""
        modelled = with_groups(replace(plan, groups=None), self.graph, self.cpu)
        return with_doubtful_groups(modelled, self.graph, self.cpu)

    # -- the end --------------------------------------------------------------------------------

    def _proofs(self) -> Proofs:
        return Proofs(
            self.graph,
            self._board,
            self.incumbent,
            self.site,
            self._open,
            self.cpu.cores,
            self._record,
            self._keep,
            self.progress,
        )

    def _outcome(
        self,
        plan: Plan | None,
        proof: Proof | None,
        interrupted: bool = False,
        started: bool = True,
    ) -> Outcome:
        board = self._board
        settled = bool(board.seats) and board.settled_for_good
        return Outcome(
            plan,
            board.measured,
            board.failed,
            self._elapsed(),
            proof,
            settled,
            interrupted,
            self._spent.seconds,
            started,
            board.promised,
            board.not_settled,
            len(board.seats),
        )

    def _state(self) -> State:
        open_ = self._board.open
        left = self._left()
        return State(
            self._board.network_seconds,
            self._board.gain,
            self._board.measured,
            self._board.failed,
            self._board.not_settled,
            len(self._board.seats) - self._board.not_settled,
            self._elapsed(),
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
            features=self.cpu.features,
            stamp=record_stamp(config, IN_NETWORK),
        )
