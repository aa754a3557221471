"""An engine in a process of its own."""

from __future__ import annotations

import pytest

from tvm_neocpu.contrib.peers.isolated import EngineError, IsolatedRunner


class Refuses:
    """An engine that refuses every network."""

    def __init__(self) -> None:
        raise ValueError("no such operator\nand more")


def test_an_engine_that_refuses_a_network_says_why() -> None:
    with pytest.raises(EngineError, match="ValueError: no such operator"):
        IsolatedRunner(Refuses)
