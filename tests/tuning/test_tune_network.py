"""A whole session on a small network: measured in place, proven, written down, resumed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import tvm
from machine_here import measure_here, prove_at_once

from tvm_neocpu import relay
from tvm_neocpu.choose_plan import choose_plan, search_plan
from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import IN_NETWORK
from tvm_neocpu.folded_network import FoldedNetwork, open_onnx
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning import tune_network
from tvm_neocpu.tuning.database.history import History, apply_history_best
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.in_network.contenders.reserve import Reserve
from tvm_neocpu.tuning.in_network.processes import crew
from tvm_neocpu.tuning.in_network.processes.machine import NetworkMachine
from tvm_neocpu.tuning.in_network.processes.verify import Proof
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.rounds.board import Seat
from tvm_neocpu.tuning.seating import Choices
from tvm_neocpu.tuning.tune_network import TuningSession

SHAPES = {"data": (1, 8, 6, 6)}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    threads.use_threads(1)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session measures in this process, and no contender is proven faster."""
    measure_here(monkeypatch)
    prove_at_once(monkeypatch)


@pytest.fixture
def network(tiny_cnn: onnx.ModelProto):
    """How to open the tiny network, and the network."""
    opened = partial(open_onnx, tiny_cnn.SerializeToString(), SHAPES, "llvm -num-cores=1")
    return opened, opened()


def session(network, log: Path, known: History | None = None, **options) -> TuningSession:
    opened, folded = network
    cpu = folded.cpu
    known = known or History(cpu.name, cpu.cores, features=cpu.features)
    plan = choose_plan(folded.graph, cpu, known)
    search = partial(search_plan, folded.graph, cpu)
    writer = TuningLog(log, cpu.features)
    return TuningSession(folded.graph, cpu, opened, search, plan, known, writer, **options)


def known_from(log: Path, folded: FoldedNetwork) -> History:
    cpu = folded.cpu
    return History(cpu.name, cpu.cores, (TuningLog(log).load(),), features=cpu.features)


def test_a_session_measures_in_place_and_writes_a_plan_and_a_verdict(
    network, tmp_path: Path, tiny_cnn: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folded = network
    prove_at_once(monkeypatch, faster=True)
    log = tmp_path / "tiny.log"
    outcome = session(network, log, seconds=3600.0, choices=Choices(trials=3)).run()
    contents = TuningLog(log).load()
    assert outcome.measured >= 2
    assert all(record.stamp.protocol == IN_NETWORK for record in contents.records)
    known = known_from(log, folded)
    assert known.plan(folded.graph) is not None
    verdict = known.verdict(folded.graph)
    assert verdict is not None
    assert verdict.kept != outcome.improved
    assert verdict.seconds < 3600.0  # --trials ended it: a longer session may find more
    mod, params = relay.frontend.from_onnx(tiny_cnn, SHAPES)
    data = np.random.default_rng(0).standard_normal((1, 8, 6, 6), "float32")
    results = []
    for logs in ((), (log,)):
        with apply_history_best(logs):
            module = relay.build(mod, "llvm -num-cores=1", params=params)["default"](tvm.cpu())
        module.set_input("data", data)
        module.run()
        results.append(module.get_output(0).numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_what_is_known_is_not_measured_again(network, here: None, tmp_path: Path) -> None:
    _, folded = network
    log = tmp_path / "tiny.log"
    session(network, log, choices=Choices(trials=3)).run()
    before = {(r.workload, r.config) for r in TuningLog(log).load().records}
    again = session(network, log, known_from(log, folded), choices=Choices(trials=6))
    again.run()
    new = {
        (seat.workload, config)
        for seat in again._board.seats.values()
        for config, estimate in seat.estimates.items()
        if not estimate.resumed and config not in seat.incumbent
    }
    assert not new & before


@pytest.mark.parametrize(
    ("log_ratio", "error", "new_plan"), [(-0.1, 0.0, True), (0.02, 0.0, False), (-0.1, 0.5, False)]
)
def test_a_plan_counts_only_if_it_is_proven_faster_and_right(
    network,
    here: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log_ratio: float,
    error: float,
    new_plan: bool,
) -> None:
    _, folded = network
    log = tmp_path / "tiny.log"
    proof = Proof(Ratio(log_ratio, 0.001), error, 1e-3, 1e-3)
    monkeypatch.setattr(crew.Here, "prove", lambda *_: proof)
    current = session(network, log, choices=Choices(trials=2))
    found = (Ratio(-0.1, 0.01), session(network, log).incumbent)
    monkeypatch.setattr(tune_network.Contenders, "find", lambda *_: [found])
    outcome = current.run()
    verdict = known_from(log, folded).verdict(folded.graph)
    assert outcome.improved == new_plan
    assert verdict is not None
    assert verdict.kept == (not new_plan)
    assert ("faster (" in str(outcome)) == new_plan


def test_a_proof_runs_both_plans_in_fresh_processes(network) -> None:
    opened, folded = network
    plan = choose_plan(folded.graph, folded.cpu, History(folded.cpu.name, 1))
    proof = crew.Here().prove(opened, (plan, plan), 1, 0.0)
    assert proof.error == 0.0
    assert min(proof.incumbent_seconds, proof.contender_seconds) > 0


def test_an_interrupt_keeps_what_was_measured(
    network, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "tiny.log"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_network.Contenders, "find", interrupted)
    outcome = session(network, log, choices=Choices(trials=2)).run()
    assert outcome.interrupted
    assert outcome.plan is None
    contents = TuningLog(log).load()
    assert contents.records
    assert not contents.verdicts


def another_way(seat: Seat) -> Config:
    """A config between the same layouts as the plan's; a session measures none of a tiny layer."""
    (here, *_) = seat.incumbent
    others = (config for config in seat.task.space if config not in seat.incumbent)
    return next(config for config in others if layouts_of(config) == layouts_of(here))


def test_a_build_after_an_interrupt_takes_the_plan_that_it_took_before(
    network, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No plan of these records was proven; a build that searched among them might be slower."""
    _, folded = network
    log = tmp_path / "tiny.log"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_network.Contenders, "find", interrupted)
    current = session(network, log, choices=Choices(trials=2))
    current.run()
    writer = TuningLog(log, folded.cpu.features)
    for seat in current._board.seats.values():
        tried = another_way(seat)
        writer.append(current._record(seat.workload, tried, (seat.seconds / 100,), 0))
    known = known_from(log, folded)
    taken = choose_plan(folded.graph, folded.cpu, known)
    assert taken.configs == current.incumbent.configs
    assert search_plan(folded.graph, folded.cpu, known).configs != taken.configs
    session(network, log, known, choices=Choices(trials=2)).run()
    assert len(TuningLog(log).load().plans) == 1  # it is not written twice


def test_a_first_reading_of_an_earlier_session_is_taken_again(
    network, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folded = network
    log = tmp_path / "tiny.log"
    first = session(network, log, choices=Choices(trials=2))
    first.run()
    seat = next(iter(first._board.seats.values()))
    (tried, *_) = seat.estimates.keys() - seat.incumbent
    lucky = first._record(seat.workload, tried, [seat.unit * x for x in (0.45, 0.5, 0.55)], 0)
    TuningLog(log, folded.cpu.features).append(replace(lucky, readings=1))
    again = session(network, log, known_from(log, folded), choices=Choices(trials=6))
    monkeypatch.setattr(tune_network.Rounds, "play", lambda _: 0)
    monkeypatch.setattr(tune_network.Contenders, "find", lambda *_: [])
    again.run()
    seat = again._board.seats[seat.workload]
    # Another candidate of the first session may lead, a little ahead of the incumbent.
    read_twice = [e.ratio.value for c, e in seat.estimates.items() if e.confirmed and c != tried]
    assert seat.best == min([1.0, *read_twice]) != seat.estimates[tried].ratio.value
    assert seat.contender() == tried


def test_a_session_ends_with_its_time_though_the_network_is_not_built(
    network, tmp_path: Path
) -> None:
    log = tmp_path / "tiny.log"
    outcome = session(network, log, seconds=0.01).run()
    assert (outcome.measured, outcome.plan, outcome.started) == (0, None, False)
    assert "nothing was measured: the network was not built within" in str(outcome)
    contents = TuningLog(log).load()
    assert not (contents.records or contents.plans or contents.verdicts)


def test_no_time_behind_the_start_means_the_plan_stays(
    network, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = session(network, tmp_path / "tiny.log", seconds=1000.0)
    start_up = TuningSession._start_up

    def slow(self: TuningSession, workers: crew.Crew) -> bool:
        started = start_up(self, workers)
        self.seconds = 0.01
        return started

    monkeypatch.setattr(TuningSession, "_start_up", slow)
    outcome = current.run()
    assert outcome.measured == 0
    assert "no faster plan found" in str(outcome)
    (verdict,) = TuningLog(tmp_path / "tiny.log").load().verdicts
    assert verdict.kept and not verdict.compared  # no interval that nobody measured


@pytest.mark.parametrize(("faster", "rounds"), [(True, 1), (False, 3)])
def test_time_kept_for_a_proof_goes_back_where_there_is_nothing_to_prove(
    network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faster: bool, rounds: int
) -> None:
    """Rounds end with the reserve, or before a fourth one that would measure nothing."""
    current = session(network, tmp_path / "tiny.log", seconds=100.0)
    found = [(Ratio(-0.1, 0.01), current.incumbent)] if faster else []
    left, kept = [100.0], []
    current._board = SimpleNamespace(measured=0)
    current._reserve = Reserve.fitting(20.0, left[0])
    current._stand_ins = SimpleNamespace(can_time=None)

    def search(self: TuningSession, *_: object) -> bool:
        self._board.measured += len(kept) < 2
        kept.append(self._reserve.seconds)
        left[0] = kept[-1]
        return True

    monkeypatch.setattr(TuningSession, "_search_candidates", search)
    monkeypatch.setattr(TuningSession, "_left", lambda self: left[0])
    monkeypatch.setattr(TuningSession, "_state", lambda self: "")
    made = SimpleNamespace(find=lambda allows: found)
    monkeypatch.setattr(tune_network, "Contenders", lambda *_: made)
    assert current._contenders(SimpleNamespace()) == found
    assert len(kept) == rounds
    assert kept == pytest.approx([50.0, 25.0, 12.5][:rounds])


@pytest.mark.parametrize(("seconds", "rounds"), [(50.0, 2), (0.0, 1)])
def test_layers_that_contenders_opened_again_are_measured_while_there_is_time(
    network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, rounds: int
) -> None:
    current = session(network, tmp_path / "tiny.log", seconds=100.0)
    current._board = SimpleNamespace(measured=0, open=[])
    current._reserve = Reserve.fitting(0.0, 0.0)
    current._stand_ins = SimpleNamespace(can_time=None)
    played = []

    def search(self: TuningSession, *_: object) -> bool:
        self._board.measured += 1
        self._board.open = []
        played.append(self._board.measured)
        return False

    def find(allows: object) -> list[object]:
        current._board.open = ["a layer"] if len(played) == 1 else []
        return []

    monkeypatch.setattr(TuningSession, "_search_candidates", search)
    monkeypatch.setattr(TuningSession, "_left", lambda self: seconds)
    monkeypatch.setattr(TuningSession, "_state", lambda self: "")
    monkeypatch.setattr(tune_network, "Contenders", lambda *_: SimpleNamespace(find=find))
    assert current._contenders(SimpleNamespace()) == []
    assert len(played) == rounds


def test_stand_ins_run_the_same_functions_without_transforms(network) -> None:
    opened, folded = network
    machine = NetworkMachine(opened)
    plan = choose_plan(folded.graph, folded.cpu, History(folded.cpu.name, 1))
    first = machine.build("a", plan)
    assert first > 0
    assert machine.build("b", plan) == 0  # every kernel is known
    times = machine.times(("a", "b"), 3)
    assert times["a"][0].keys() == times["b"][0].keys()
    assert len(times["a"]) == 3
    np.testing.assert_array_equal(machine.outputs("a")[0], machine.outputs("b")[0])
    assert machine.build("c", plan, True) >= 0
    computed = {s for s in machine.calls("a") if not isinstance(s[0], TransformWorkload)}
    assert machine.calls("c").keys() == computed < machine.calls("a").keys()
