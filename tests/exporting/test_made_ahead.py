"""One weight is made while another one is written; large ones are not made ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from tvm_neocpu.exporting.made_ahead import MOST_BYTES, made_ahead


class Making:
    """Weights of one byte each, and which of them were asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.begun = count, [0]

    def __iter__(self) -> Iterator[memoryview]:
        for number in range(self.count):
            self.begun.append(number + 1)
            yield memoryview(bytes([number]))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_all_of_them_in_order(count: int) -> None:
    assert [weight[0] for weight in made_ahead(Making(count), [1] * count)] == list(range(count))


def test_one_is_made_while_another_is_written() -> None:
    making = Making(5)
    for number, _ in enumerate(made_ahead(making, [1] * 5)):
        wanted = min(number + 2, 5)
        deadline = time.monotonic() + 60
        while making.begun[-1] < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        assert making.begun[-1] == wanted


def test_the_thread_has_the_callers_context() -> None:
    known: ContextVar[str] = ContextVar("known", default="nothing")
    known.set("something")

    def weights() -> Iterator[memoryview]:
        for _ in range(2):
            yield memoryview(known.get().encode())

    assert [bytes(weight) for weight in made_ahead(weights(), [1, 1])] == [b"something"] * 2


def test_a_large_one_waits_until_the_one_before_is_written() -> None:
    making = Making(3)
    weights = made_ahead(making, [1, MOST_BYTES + 1, 1])
    next(weights)
    assert making.begun[-1] == 1
    next(weights)
    assert making.begun[-1] in (2, 3)
    assert [weight[0] for weight in weights] == [2]


def test_what_cannot_be_made_is_told() -> None:
    def broken() -> Iterator[memoryview]:
        yield memoryview(b"a")
        raise MemoryError("too large")

    weights = made_ahead(broken(), [1, 1])
    assert bytes(next(weights)) == b"a"
    with pytest.raises(MemoryError, match="too large"):
        next(weights)
