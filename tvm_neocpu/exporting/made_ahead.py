"""The next weight is made while the last one is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

# Two weights are in memory at a time. Those of VGG's dense layers are 400 MB: one is enough.
MOST_BYTES = 1 << 25


def made_ahead(weights: Iterable[memoryview], sizes: Sequence[int]) -> Iterator[memoryview]:
    """The weights in order, each made by another thread before it is asked for.

    ``sizes`` are their bytes. One above :data:`MOST_BYTES` is made once it is asked for. The thread
    has the caller's context.
    """
    makers = iter(weights)
    with ThreadPoolExecutor(1) as thread:

        def begun() -> Future[memoryview]:
            return thread.submit(copy_context().run, next, makers)

        ahead: Future[memoryview] | None = None
        for place in range(len(sizes)):
            weight = (ahead or begun()).result()
            is_small = any(size <= MOST_BYTES for size in sizes[place + 1 : place + 2])
            ahead = begun() if is_small else None
            yield weight
            del weight
