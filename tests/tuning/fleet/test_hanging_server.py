"""A server that hangs: it takes connections and never answers. A session goes on without it."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import pytest
from fleet import LoopbackFleet

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.errors import FleetError
from tvm_neocpu.tuning.fleet import remote_workers, tracker
from tvm_neocpu.tuning.fleet.remote_workers import Remotely, RemoteWorkers
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.measuring.child_process import ChildDied

KEY = "loopback"


def hang(process) -> None:
    """Stop a server with the processes that it forked; killing it works as ever."""
    os.killpg(process.pid, signal.SIGSTOP)


def test_no_answer_is_one_line_after_a_while(monkeypatch) -> None:
    monkeypatch.setattr(tracker, "ANSWER_SECONDS", 0.05)
    with pytest.raises(FleetError, match=r"^x does not answer within 0 s$"):
        tracker._answered(partial(time.sleep, 5), "x")
    with pytest.raises(KeyError):
        tracker._answered(partial({}.__getitem__, "nothing"), "x")
    assert tracker._answered(lambda: 7, "x") == 7


@pytest.mark.compiler
@pytest.mark.slow
def test_a_server_that_hangs_while_it_times_costs_its_plan_alone(network, monkeypatch) -> None:
    monkeypatch.setattr(remote_workers, "RECRUIT_SECONDS", 3600.0)
    monkeypatch.setattr(remote_workers, "RUN_GRACE", 3.0)
    here = network()
    plan = choose_plan(here.graph, here.cpu)
    with LoopbackFleet(KEY, 2) as loopback, RemoteWorkers(network, loopback.fleet, 1) as workers:
        workers.start(plan)
        assert workers.build([plan, plan], views=True) == [None, None]
        hang(loopback.servers[0])
        lost = []
        for index in (0, 1):
            try:
                assert set(workers.times(index, 3)) == {INCUMBENT, STAND_IN}
            except ChildDied as error:
                lost.append(error)
        assert [error.hung for error in lost] == [True]
        assert len(workers) == 1
        assert workers.build([plan], views=True) == [None]
        assert set(workers.times(0, 3)) == {INCUMBENT, STAND_IN}


@pytest.mark.compiler
@pytest.mark.slow
def test_a_server_that_hangs_from_the_start_is_passed_over(network, monkeypatch) -> None:
    monkeypatch.setattr(tracker, "ANSWER_SECONDS", 3.0)
    here = network()
    plan = choose_plan(here.graph, here.cpu)
    with LoopbackFleet(KEY, 2) as loopback:
        hang(loopback.servers[0])
        assert loopback.fleet.threads() == 1
    with LoopbackFleet(KEY, 2) as loopback:
        hang(loopback.servers[0])
        with RemoteWorkers(network, loopback.fleet, 1) as workers:
            workers.start(plan)
            assert len(workers) == 1
            assert workers.build([plan], views=True) == [None]
        proof = Remotely(loopback.fleet).prove(network, (plan, plan), 1, 5.0)
        assert proof.right
