"""Tuning sessions without what takes them long: processes that start, and proofs.

A process takes seconds to start, and what a session decides is the same without it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import pytest

from tvm_neocpu.core.errors import first_line
from tvm_neocpu.tuning.in_network.processes import crew, workers
from tvm_neocpu.tuning.in_network.processes.machine import Lowering, NetworkMachine
from tvm_neocpu.tuning.in_network.processes.verify import Proof
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.measuring.child_process import ChildError


class MachineHere:
    """What :func:`network_process` returns, as a session's workers use it.

    Machines take turns: TVM has one stack of block builders for all threads of a process, and
    machines that run at once would time each other.
    """

    alive = True
    _turn = Lock()

    def __init__(self, open_network: Callable[[], Lowering], start: object = None) -> None:
        with self._turn:
            self._machine = NetworkMachine(open_network)

    def ask(self, name: str, *arguments: Any, timeout: float | None = None) -> Any:
        try:
            with self._turn:
                return getattr(self._machine, name)(*arguments)
        except Exception as error:  # as a process answers, whatever was raised in it
            raise ChildError(first_line(error), type(error).__name__) from error


def measure_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions measure in this process; proofs go on to start processes."""
    monkeypatch.setattr(workers, "network_process", MachineHere)


def prove_at_once(monkeypatch: pytest.MonkeyPatch, faster: bool = False) -> None:
    """Every proof ends so at once; a real one may open six pairs of processes."""
    proof = Proof(Ratio(-0.1 if faster else 0.02, 0.001), 0.0, 1e-3, 1e-3)
    monkeypatch.setattr(crew.Here, "prove", lambda *_: proof)
