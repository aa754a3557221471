"""Python's search for garbage in cycles, made seldom while a network is built.

Passes make millions of small objects, nearly all of which their counts free. Python looks at the
youngest after every 700 of them, and again and again at what a build keeps.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from tvm_neocpu.runtime.forking import fork_lock

# New objects until the youngest are looked at.
SELDOM = 20_000
_LOCK = fork_lock()
_inside = 0
_usual: tuple[int, int, int] = gc.get_threshold()


@contextlib.contextmanager
def garbage_seldom() -> Iterator[None]:
    """Inside, the youngest objects are looked at after 20,000 new ones, in all threads.

    A process that has switched the collector off, or looks more seldom by itself, is left alone.
    """
    global _inside, _usual
    with _LOCK:
        _inside += 1
        if _inside == 1:
            _usual = gc.get_threshold()
            if 0 < _usual[0] < SELDOM:
                gc.set_threshold(SELDOM, *_usual[1:])
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            # Somebody may have set others meanwhile.
            if _inside == 0 and gc.get_threshold() == (SELDOM, *_usual[1:]):
                gc.set_threshold(*_usual)
