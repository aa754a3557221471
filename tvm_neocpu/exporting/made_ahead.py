"""The next weight is made while the last one is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

# Two weights are in memory at a time: those of VGG's dense layers are 400 MB.
MOST_BYTES = 1 << 25


def made_ahead(weights: Iterable[memoryview], sizes: Iterable[int]) -> Iterator[memoryview]:
    """The weights in order, each made by another thread before it is asked for.

    ``sizes`` are their bytes. One above :data:`MOST_BYTES` is made once it is asked for.
    """
    makers = iter(weights)
    wanted = list(sizes)
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(next, makers) if wanted else None
        for place in range(len(wanted)):
            weight = (job or thread.submit(next, makers)).result()
            following = wanted[place + 1 : place + 2]
            is_small = all(size <= MOST_BYTES for size in following)
            job = thread.submit(next, makers) if following and is_small else None
            yield weight
            del weight
