"""Objects in processes of their own: what they raise arrives, their death is survived."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest

from tvm_neocpu.tuning.measuring.child_process import ChildDied, ChildError, ChildProcess


class Served:
    """What the tests ask."""

    def __init__(self, refuse: bool = False) -> None:
        if refuse:
            raise OSError("no such file\nand a stack")

    def double(self, number: int) -> int:
        return 2 * number

    def fail(self) -> None:
        raise ValueError("bad input\nand a stack")

    def sleep(self) -> None:
        time.sleep(60)

    def die(self) -> None:
        os._exit(7)


def test_answers_and_errors() -> None:
    with ChildProcess(Served) as child:
        assert child.ask("double", 21) == 42
        with pytest.raises(ChildError, match=r"^bad input$") as caught:
            child.ask("fail")
        assert caught.value.kind == "ValueError"
        assert child.ask("double", 4) == 8  # it goes on
    assert not child.alive


def test_what_loading_raises_is_said() -> None:
    with pytest.raises(ChildError, match=r"^no such file$"):
        ChildProcess(partial(Served, refuse=True))


def test_a_process_that_hangs_is_killed() -> None:
    with ChildProcess(Served) as child:
        with pytest.raises(ChildDied, match="no answer") as caught:
            child.ask("sleep", timeout=0.3)
        assert caught.value.hung
        assert not child.alive


def test_a_process_that_dies_says_with_which_code() -> None:
    with ChildProcess(Served) as child:
        with pytest.raises(ChildDied, match="code 7") as caught:
            child.ask("die", timeout=30)
        assert not caught.value.hung
        with pytest.raises(ChildDied):
            child.ask("double", 1)
