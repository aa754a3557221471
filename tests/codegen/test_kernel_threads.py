"""How threads share what waits for them."""

from __future__ import annotations

from tvm_neocpu.codegen.kernel_threads import Backlog


def test_less_at_once_as_it_runs_out() -> None:
    waiting: Backlog[int] = Backlog(threads=2, most=4)
    for item in range(20):
        waiting.add(item)
    taken = [waiting.take() for _ in range(14)]
    assert [len(some) for some in taken] == [4, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    assert [item for some in taken for item in some] == list(range(20))


def test_one_at_a_time() -> None:
    waiting: Backlog[int] = Backlog(threads=1, most=1)
    assert waiting.take() == []
    for item in range(9):
        waiting.add(item)
    assert waiting.take() == [0]
