"""A tracker and two servers on loopback: a session runs on both, and goes on with one."""

from __future__ import annotations

import numpy as np
import pytest
from fleet import LoopbackFleet, kill

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.accuracy.largest_error import largest_error
from tvm_neocpu.core.errors import FleetError
from tvm_neocpu.tuning.fleet import remote_workers
from tvm_neocpu.tuning.fleet.remote_workers import Remotely, RemoteWorkers
from tvm_neocpu.tuning.in_network.processes.machine import NetworkMachine
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.measuring.child_process import ChildDied

pytestmark = [pytest.mark.compiler, pytest.mark.slow]

KEY = "loopback"


def test_two_servers_one_of_them_killed(network, monkeypatch, caplog):
    monkeypatch.setattr(remote_workers, "RECRUIT_SECONDS", 3600.0)
    here = network()
    plan = choose_plan(here.graph, here.cpu)
    local = NetworkMachine(lambda: here)
    local.build(INCUMBENT, plan)
    with LoopbackFleet(KEY, 2) as loopback:
        with RemoteWorkers(network, loopback.fleet, 1) as workers:
            workers.start(plan)
            assert len(workers) == 2
            outputs = workers.ask(0, "outputs", INCUMBENT)
            assert largest_error(outputs, local.outputs(INCUMBENT)) < 1e-6
            assert workers.ask(1, "calls", INCUMBENT) == local.calls(INCUMBENT)
            assert workers.build([plan, plan], views=True) == [None, None]
            runs = [workers.times(index, 3) for index in (0, 1)]
            for found in runs:
                assert set(found) == {INCUMBENT, STAND_IN}
                assert all(len(each) == 3 for each in found.values())
                assert all(value > 0 for run in found[STAND_IN] for value in run.values())

            kill(loopback.servers[0])
            problems = workers.build([plan, plan], views=True)
            assert [isinstance(problem, ChildDied) for problem in problems].count(True) == 1
            alive = problems.index(None)
            assert set(workers.times(alive, 3)) == {INCUMBENT, STAND_IN}
            assert len(workers) == 1
            assert workers.build([plan], views=True) == [None]
            assert caplog.messages == [f"1 of 2 servers of {loopback.fleet} lost"]
            assert workers.build([plan], views=False) == [None]
            whole = sum(workers.times(0, 3)[INCUMBENT][0].values())
            assert 0 < whole < 1

        proof = Remotely(loopback.fleet).prove(network, (plan, plan), 1, 5.0)
        assert proof.right and not np.isnan(proof.ratio.value)

        with RemoteWorkers(network, loopback.fleet, 1) as workers:
            workers.start(plan)
            kill(loopback.servers[1])
            assert isinstance(workers.build([plan], views=True)[0], ChildDied)
            assert not workers._alive() and len(workers) == 1
            with pytest.raises(FleetError, match="no server of loopback"):
                workers.build([plan], views=True)
        with (
            RemoteWorkers(network, loopback.fleet, 1) as workers,
            pytest.raises(FleetError, match="no free server of loopback"),
        ):
            workers.start(plan)
