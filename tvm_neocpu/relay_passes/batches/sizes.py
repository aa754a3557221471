"""The batches worth a specialisation; every other batch runs as a sum of these.

A run of N images takes about ``a + b * N`` seconds: ``a`` for what a run does once (weights that
come from memory, calls), ``b`` for each image. A sum of k runs takes ``(k - 1) * a`` longer than
one run of all images.
"""

from __future__ import annotations

# The largest batch that gets code of its own, unless the user says otherwise.
MAX_BATCH = 8
# How much longer than a run of its own a batch may take as a sum.
TOLERANCE = 0.03
# What one more run costs besides its kernels: the calls of the VM, copies of input and output rows.
RUN_SECONDS = 20e-6


def chunks(batch: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The runs that a batch consists of, the largest first: ``chunks(7, (1, 2, 4)) == (4, 2, 1)``.

    ``sizes`` contains 1.
    """
    left, parts = batch, []
    for size in sorted(sizes, reverse=True):
        parts += [size] * (left // size)
        left %= size
    return tuple(parts)


def worthwhile_sizes(
    one: float, largest: float, max_batch: int, two: float | None = None
) -> tuple[int, ...]:
    """The batches to specialise, ascending, given the seconds of batch 1 and of ``max_batch``.

    ``two`` are those of batch 2, where they are known. Activations of a large batch leave the
    caches, so that it may look as slow as its images one by one: SqueezeNet's eight do, and two of
    them are 6 % faster together.

    A batch gets its own code where the sum of smaller ones is predicted to take longer by more
    than ``TOLERANCE``.
    """
    sizes: tuple[int, ...] = (1,)
    if max_batch == 1:
        return sizes
    each = max(largest - one, 0.0) / (max_batch - 1)
    if two is not None:
        each = min(each, max(two - one, 0.0))
    once = max(one - each, 0.0) + RUN_SECONDS
    for batch in range(2, max_batch + 1):
        longer = (len(chunks(batch, sizes)) - 1) * once
        if longer > TOLERANCE * (once + each * batch):
            sizes = (*sizes, batch)
    return sizes
