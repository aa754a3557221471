"""A network that carries its own clocks, in a session of TVM's RPC inside this process."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from tvm import rpc

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.core.errors import ServerLostError
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.runtime.process.threads import thread_count
from tvm_neocpu.tuning.fleet.remote_machine import RemoteMachine
from tvm_neocpu.tuning.in_network.processes.machine import NetworkMachine

pytestmark = pytest.mark.compiler

SLOTS = ("incumbent", "stand-in")


class InProcess:
    """A fleet whose one server is this process."""

    def connect(self):
        return rpc.LocalSession()


@pytest.fixture(scope="module")
def model():
    return model_zoo.build("lenet")


@pytest.fixture(scope="module")
def network(model):
    return open_onnx(model.SerializeToString(), resolve_shapes(model.graph, {}), "llvm")


@pytest.fixture(scope="module")
def plan(network):
    return choose_plan(network.graph, network.cpu)


@pytest.fixture
def machine(network, plan, tmp_path):
    machine = RemoteMachine(lambda: network, InProcess(), thread_count(), tmp_path)
    machine.build("incumbent", plan)
    return machine


def test_it_computes_what_onnx_runtime_computes(machine, model, network):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    expected = session.run(None, dict(zip(names, network.inputs, strict=True)))
    np.testing.assert_allclose(machine.outputs("incumbent")[0], expected[0], rtol=1e-4, atol=1e-6)


def test_every_call_is_timed_as_here(machine, network, plan):
    here = NetworkMachine(lambda: network)
    here.build("incumbent", plan)
    assert machine.calls("incumbent") == here.calls("incumbent")
    (theirs,), (ours,) = (m.times(["incumbent"], 1)["incumbent"] for m in (machine, here))
    assert theirs.keys() == ours.keys()
    assert all(0 < seconds < 1 for seconds in theirs.values())
    assert len(machine.burst("incumbent", 3)) == 3


def test_known_kernels_are_not_compiled_again(machine, plan):
    assert machine.build("stand-in", plan) == 0
    found = machine.times(SLOTS, 2)
    assert [len(found[slot]) for slot in SLOTS] == [2, 2]


def test_an_error_of_a_lost_server_is_told_from_others(machine, monkeypatch):
    server = machine._server
    with pytest.raises(KeyError), server.watched():
        raise KeyError("the network's own")
    monkeypatch.setattr(server, "_answers", lambda: False)
    with pytest.raises(ServerLostError, match="is gone"), server.watched():
        raise RuntimeError("Socket closed")
