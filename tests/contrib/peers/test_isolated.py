"""An engine in a process of its own."""

from __future__ import annotations

import pytest

from tvm_neocpu.contrib.peers.isolated import EngineError, IsolatedRunner
from tvm_neocpu.core.errors import ShapeError


class Refuses:
    """An engine that refuses every network."""

    def __init__(self) -> None:
        raise ValueError("no such operator\nand more")


class SaysSo:
    """One that says it in a sentence of ours."""

    def __init__(self) -> None:
        raise ShapeError("the shape of x is not known")


def test_an_engine_that_refuses_a_network_says_why() -> None:
    with pytest.raises(EngineError, match="ValueError: no such operator"):
        IsolatedRunner(Refuses)
    with pytest.raises(EngineError, match=r"^the shape of x is not known$"):
        IsolatedRunner(SaysSo)
