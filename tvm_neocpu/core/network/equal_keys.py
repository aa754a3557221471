"""What the k-th of equal keys stands for: equal layers are known by their order alone."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable
from typing import TypeVar

Named = TypeVar("Named")


def kth_of_equal(
    asked: Iterable[Hashable | None], there: Iterable[tuple[Hashable, Named]]
) -> list[Named | None]:
    """For the k-th of equal keys asked, what the k-th of these keys stands for.

    ``None`` for all of a key that is asked more or less often than it is there.
    """
    keys = list(asked)
    waiting: dict[Hashable, deque[Named]] = defaultdict(deque)
    for key, value in there:
        waiting[key].append(value)
    clear = {key for key, count in Counter(keys).items() if len(waiting[key]) == count}
    return [waiting[key].popleft() if key in clear else None for key in keys]
