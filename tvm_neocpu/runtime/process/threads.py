"""How many threads run a network, and where: set once, before TVM's pool starts.

TVM takes half of the logical cores on x86, because it assumes hyper-threads: a machine without them
stays half idle. TVM also binds its threads to the first CPUs of the machine, even where this
process may not use them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import MutableMapping

from tvm_neocpu.core.machine.cores import allowed_cpus, core_key, physical_cores
from tvm_neocpu.core.messages.plural import plural

COUNT = "TVM_NUM_THREADS"
BIND = "TVM_BIND_THREADS"
# How often an idle worker looks for work before it sleeps, and yields its core in between. TVM's
# 300,000 take a core for 0.1 s behind every call, and these some 8 ms: longer than what networks
# compute on one thread between two parallel loops.
SPIN, SPINS = "TVM_THREAD_POOL_SPIN_COUNT", 20_000
# TVM reads it where its own variable is absent, so a user may have set it for TVM.
OPENMP_COUNT = "OMP_NUM_THREADS"


class TooManyThreadsWarning(UserWarning):
    """More threads were asked for than there are cores."""


def size_thread_pool(environment: MutableMapping[str, str] = os.environ) -> int:
    """Give TVM's pool one thread per physical core that this process may use; return the count.

    A valid ``TVM_NUM_THREADS`` wins, then a valid ``OMP_NUM_THREADS``. An invalid
    ``TVM_NUM_THREADS`` is replaced with a warning, because TVM would abort. A pool that already
    runs stays as it is.
    """
    if COUNT in environment and _positive(environment[COUNT]) is None:
        default = physical_cores()
        text = environment.pop(COUNT)
        from logging import getLogger  # 5 ms that few processes need

        warn = getLogger("tvm_neocpu").warning
        warn("%s=%r is not a positive number; using %d threads", COUNT, text, default)
    count = thread_count(environment)
    environment[COUNT] = str(count)
    environment.setdefault(SPIN, str(SPINS))
    if BIND not in environment and not binding_is_right(count, allowed_cpus()):
        environment[BIND] = "0"
    return count


def thread_count(environment: MutableMapping[str, str] = os.environ) -> int:
    """The number of threads that `size_thread_pool` would choose; changes nothing."""
    for name in (COUNT, OPENMP_COUNT):
        count = _positive(environment.get(name, ""))
        if count is not None:
            return count
    return physical_cores()


def binding_is_right(count: int, allowed: set[int]) -> bool:
    """Whether TVM's binding, thread i to CPU i, is right: one thread on each core we may use, and
    a CPU more.

    The binding is wrong under ``taskset 2,3`` (TVM would leave the mask), in a container with a
    quota (all containers would share CPU 0), and where CPUs 0 and 1 are hyper-threads of one core.
    Where every CPU gets a thread, Linux spreads them, and moves them away from busy neighbours; a
    bound worker would wait, and share its core with a caller that was put there. Hyper-threads need
    the binding: two threads could share a core.
    """
    first = set(range(count))
    cores = {core_key(cpu) for cpu in first}
    one_each = len(cores) == count == len({core_key(cpu) for cpu in allowed})
    return first < allowed and one_each


def use_threads(count: int, environment: MutableMapping[str, str] = os.environ) -> None:
    """Run on ``count`` threads; for command lines, before the first parallel loop."""
    environment[COUNT] = str(count)
    if not binding_is_right(count, allowed_cpus()):
        environment.setdefault(BIND, "0")


def pin_process(count: int) -> None:
    """Keep this process on ``count`` cores, one CPU of each, so that all its libraries share them.

    Changes nothing if there are no more cores than that, or if the system cannot pin (macOS).
    """
    cores = one_of_each_core()
    chosen = cores[:count]
    if len(cores) > count and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, chosen)


def one_of_each_core() -> list[int]:
    """The first CPU of every physical core that this process may use."""
    first = {core_key(cpu): cpu for cpu in sorted(allowed_cpus(), reverse=True)}
    return sorted(first.values())


def remark_too_many(count: int) -> None:
    """Warn of more threads than cores: they take turns, and every one waits for the others."""
    there = physical_cores()
    if count > there:
        warnings.warn(
            f"{count} threads on {plural(there, 'core')}: more threads than cores are slower than "
            "one for each",
            TooManyThreadsWarning,
            stacklevel=3,
        )


def take_cores(wanted: int | None) -> int:
    """Pin this process to ``wanted`` cores and run on them; returns their number.

    The default is `thread_count`. For benchmarks, before the first parallel loop.
    """
    count = wanted or thread_count()
    if wanted:
        remark_too_many(count)
    pin_process(count)
    use_threads(count)
    return count


def _positive(text: str) -> int | None:
    try:
        count = int(text)
    except ValueError:
        return None
    return count if count > 0 else None
