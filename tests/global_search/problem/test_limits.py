from __future__ import annotations

import math

import pytest

from tvm_neocpu.core.errors import InvalidProblemError
from tvm_neocpu.global_search.problem.limits import Deadline


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands at 100 seconds."""
    monkeypatch.setattr("time.monotonic", lambda: 100.0)


def test_time_left(clock):
    assert Deadline.after(8).remaining == 8
    assert not Deadline.after(8).passed
    assert Deadline(90.0).remaining == 0
    assert Deadline.after(0).passed


def test_shares_end_earlier(clock):
    assert Deadline.after(8).share(0.25) == Deadline(102.0)
    assert Deadline.after(8).at_most(3) == Deadline(103.0)
    assert Deadline.after(8).at_most(30) == Deadline(108.0)


def test_never_is_a_deadline(clock):
    never = Deadline.after(math.inf)
    assert never.remaining == never.share(0.5).remaining == math.inf
    assert never.at_most(1) == Deadline(101.0)


@pytest.mark.parametrize("seconds", [-1e-9, math.nan])
def test_negative_limits_are_refused(seconds):
    with pytest.raises(InvalidProblemError):
        Deadline.after(seconds)
