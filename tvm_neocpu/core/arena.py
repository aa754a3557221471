"""Where each buffer of a network lies in one piece of memory, by size and lifetime.

`place` is greedy by size (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
inference", section 5): the largest buffer first, at the lowest offset that no buffer of the same
time takes. `place_tightly` places the buffers in many sequences: a sequence whose highest buffers
stand out is tried again with these nearer to its front. Both are for sizes of a network: some
thousand buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tvm_neocpu.core.machine.alignment import ALIGNMENT

# How often a sequence is changed. NASNet-A large: 5 ms each.
ROUNDS = 100


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``size`` bytes, needed from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether some step needs both."""
        return self.first <= other.last and other.first <= self.last


Offsets = tuple[list[int], int]
_Sequence = list[int]


def place(lifetimes: Sequence[Lifetime]) -> Offsets:
    """An offset for each buffer, in bytes, and the bytes of all together.

    Buffers that a step needs both never overlap; offsets are multiples of ``ALIGNMENT``.
    """
    by_size = sorted(range(len(lifetimes)), key=lambda at: (-lifetimes[at].size, at))
    return _placed(lifetimes, _neighbours(lifetimes), by_size)


def place_tightly(lifetimes: Sequence[Lifetime], rounds: int = ROUNDS) -> Offsets:
    """As :func:`place`, in no more bytes and often fewer.

    Ends where no placement takes less, and each of ten ways to search where it goes round in a
    circle, or after ``rounds``.
    """
    offsets, size = _tightly(tuple(lifetimes), rounds)
    return list(offsets), size


@lru_cache(maxsize=8)  # a build asks for its networks' arenas again once calls are in order
def _tightly(lifetimes: tuple[Lifetime, ...], rounds: int) -> Offsets:
    near, bound = _neighbours(lifetimes), _least_bytes(lifetimes)
    best = place(lifetimes)
    for key in _KEYS:
        start = sorted(range(len(lifetimes)), key=lambda at: (*key(lifetimes[at]), at))
        for changed in (_to_front, _halfway):
            sequence, tried = start, set[tuple[int, ...]]()
            for _ in range(rounds):
                if best[1] <= bound:
                    return best
                if tuple(sequence) in tried:
                    break
                tried.add(tuple(sequence))
                found = _placed(lifetimes, near, sequence)
                best = min(best, found, key=lambda offsets: offsets[1])
                ends = [at + life.size for at, life in zip(found[0], lifetimes, strict=True)]
                sequence = changed(sequence, [at for at in sequence if ends[at] == found[1]])
    return best


def largest_live_set(lifetimes: Sequence[Lifetime]) -> int:
    """The bytes that some step needs at once: no placement takes less."""
    change: dict[int, int] = {}
    for life in lifetimes:
        change[life.first] = change.get(life.first, 0) + life.size
        change[life.last + 1] = change.get(life.last + 1, 0) - life.size
    alive = most = 0
    for step in sorted(change):
        alive += change[step]
        most = max(most, alive)
    return most


def _least_bytes(lifetimes: Sequence[Lifetime]) -> int:
    """The largest live set with what alignment adds: only the highest buffer need not be padded."""
    padded = [
        Lifetime(-(-life.size // ALIGNMENT) * ALIGNMENT, life.first, life.last)
        for life in lifetimes
    ]
    spared = max((a.size - b.size for a, b in zip(padded, lifetimes, strict=True)), default=0)
    return max(largest_live_set(lifetimes), largest_live_set(padded) - spared)


_KEYS: tuple[Callable[[Lifetime], tuple[int, ...]], ...] = (
    lambda life: (life.first - life.last, -life.size),  # longest first
    lambda life: (-life.size,),
    lambda life: (life.first, -life.size),
    lambda life: (-life.last, -life.size),
    lambda life: (-life.size * (life.last - life.first + 1),),
)


def _to_front(sequence: _Sequence, high: _Sequence) -> _Sequence:
    chosen = set(high)
    return [*high, *(at for at in sequence if at not in chosen)]


def _halfway(sequence: _Sequence, high: _Sequence) -> _Sequence:
    """Each of the high buffers moved half of its way to the front."""
    changed = list(sequence)
    for buffer in high:
        at = changed.index(buffer)
        changed.insert(at // 2, changed.pop(at))
    return changed


def _neighbours(lifetimes: Sequence[Lifetime]) -> list[list[int]]:
    """For each buffer, the others that some step needs together with it."""
    near: list[list[int]] = [[] for _ in lifetimes]
    alive: list[int] = []
    for at in sorted(range(len(lifetimes)), key=lambda at: lifetimes[at].first):
        alive = [other for other in alive if lifetimes[other].meets(lifetimes[at])]
        for other in alive:
            near[at].append(other)
            near[other].append(at)
        alive.append(at)
    return near


def _placed(
    lifetimes: Sequence[Lifetime], near: Sequence[Sequence[int]], sequence: Iterable[int]
) -> Offsets:
    """Each buffer of the sequence at the lowest gap that those before it leave."""
    sizes = [life.size for life in lifetimes]
    offsets = [-1] * len(sizes)
    # Where a buffer lies, and where the next one may: hundreds of sequences look at these.
    taken = [(-1, -1)] * len(sizes)
    most = 0
    for at in sequence:
        size = sizes[at]
        offset = _lowest_gap(sorted([taken[other] for other in near[at]]), size)
        offsets[at] = offset
        end = offset + size
        taken[at] = offset, -(-end // ALIGNMENT) * ALIGNMENT
        if end > most:
            most = end
    return offsets, most


def _lowest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The lowest aligned offset of ``size`` free bytes between (begin, aligned end), ascending.

    A negative begin is no buffer.
    """
    at = 0
    for begin, end in taken:
        if begin >= at + size:
            break
        if end > at:
            at = end
    return at
