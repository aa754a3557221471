"""Children that were forked after, or during, a run: they answer within a time limit."""

from __future__ import annotations

import os

import pytest
from fresh_process import FORK, run_script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# Every script forks; ``answer`` is right in the parent before it does.
SCRIPT = """
import logging, multiprocessing, os, signal, sys, threading, time
import numpy as np
import tvm, tvm_neocpu

library, array = sys.argv[1:]
lib, image = tvm_neocpu.load(library), np.load(array)
module = lib["default"](tvm.cpu())

def scores(module=module):
    with module.lock:
        module.run(data=image)
        return module.get_output("out").numpy()

answer = scores()

def right(module=module):
    return np.array_equal(scores(module), answer)
"""


def run(body: str, files: tuple[str, str], threads: int = 2) -> str:
    """What the script prints; TVM runs on ``threads`` threads."""
    done = run_script(FORK + SCRIPT + body, *files, TVM_NUM_THREADS=str(threads))
    return done.stdout + done.stderr


# TVM's idle workers spin for some 0.1 s, and sleep from then on: a fork meets either.
@pytest.mark.parametrize(("pause", "threads"), [(0.0, 2), (0.7, 2), (0.7, 1), (0.7, 5)])
def test_a_child_runs_what_its_parent_ran(
    pause: float, threads: int, files: tuple[str, str]
) -> None:
    run(
        f"time.sleep({pause})\n"
        "children = [fork(lambda: all(right() for _ in range(5))) for _ in range(3)]\n"
        "assert all([right(), *map(succeeded, children)])\n",
        files,
        threads,
    )


def test_children_of_children_and_of_other_threads(files: tuple[str, str]) -> None:
    run(
        "def parent():\n"
        "    return right() and succeeded(fork(right)) and right()\n"
        "assert succeeded(fork(parent))\n"
        "found = []\n"
        "def in_a_thread():\n"
        "    found.append(right() and succeeded(fork(parent)))\n"
        "    found.append(succeeded(fork(lambda: right(lib['default'](tvm.cpu())))))\n"
        "thread = threading.Thread(target=in_a_thread); thread.start(); thread.join()\n"
        "assert found == [True, True]\n",
        files,
    )


def test_a_child_runs_in_threads_of_its_own(files: tuple[str, str]) -> None:
    run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def child():\n"
        "    with ThreadPoolExecutor(3) as pool:\n"
        "        return all([right(), *pool.map(lambda _: right(), range(30)), right()])\n"
        "assert succeeded(fork(child))\n",
        files,
    )


def test_a_fork_while_another_thread_runs(files: tuple[str, str]) -> None:
    run(
        "end = threading.Event()\n"
        "def keep_running():\n"
        "    while not end.is_set():\n"
        "        module.run()\n"
        "thread = threading.Thread(target=keep_running); thread.start()\n"
        "children = [fork(right) for _ in range(20)]\n"
        "found = [succeeded(child) for child in children]\n"
        "end.set(); thread.join()\n"
        "assert all(found), found\n",
        files,
    )


def test_a_fork_waits_for_a_call_to_end(files: tuple[str, str]) -> None:
    """A child would find TVM's allocator locked for ever."""
    run(
        "from tvm_neocpu.runtime.process import forking\n"
        "guard, inside, ended = forking.fork_lock(), threading.Event(), []\n"
        "def busy():\n"
        "    inside.set(); time.sleep(1); ended.append(True)\n"
        "thread = threading.Thread(target=forking.call, args=(guard, busy)); thread.start()\n"
        "inside.wait()\n"
        "assert succeeded(fork(lambda: ended and forking.call(guard, right)))\n"
        "assert forking.call(guard, right)\n",
        files,
    )


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_while_fork_waits_is_heard_after_it(files: tuple[str, str]) -> None:
    """Python ignores what is raised before a fork. Nothing may be locked for ever either."""
    run(
        "from tvm_neocpu.runtime.process import forking\n"
        "guard, inside, main = forking.fork_lock(), threading.Event(), threading.main_thread()\n"
        "wanted, held = forking._this_fork.wanted, forking._this_fork.held\n"
        "def busy():\n"
        "    inside.set()\n"
        "    while not wanted:\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(0.2)\n"
        "    signal.pthread_kill(main.ident, signal.SIGINT)\n"
        "    time.sleep(0.2)\n"
        "    ended.append(True)\n"
        "for _ in range(3):\n"
        "    ended = []\n"
        "    inside.clear(); wanted.clear()\n"
        "    thread = threading.Thread(target=forking.call, args=(guard, busy)); thread.start()\n"
        "    inside.wait()\n"
        "    try:\n"
        "        fork(lambda: ended and forking.call(guard, right))\n"
        "        time.sleep(20)\n"
        "        sys.exit('Ctrl-C was swallowed')\n"
        "    except KeyboardInterrupt:\n"
        "        assert os.waitpid(-1, 0)[1] == 0\n"
        "    thread.join()\n"
        "    assert not held and forking.call(guard, right)\n"
        "free = threading.Thread(target=forking.call, args=(guard, right)); free.start()\n"
        "free.join(20)\n"
        "assert not free.is_alive()\n",
        files,
    )


def test_a_fork_does_not_wait_for_the_users_lock(files: tuple[str, str]) -> None:
    run(
        "inside, forked = threading.Event(), threading.Event()\n"
        "def holder():\n"
        "    with module.lock:\n"
        "        inside.set(); forked.wait()\n"
        "thread = threading.Thread(target=holder); thread.start()\n"
        "inside.wait()\n"
        "child = fork(right)\n"
        "forked.set()\n"
        "assert succeeded(child) and right()\n",
        files,
    )


def test_a_fork_inside_the_lock(files: tuple[str, str]) -> None:
    run("with module.lock:\n    child = fork(right)\nassert succeeded(child) and right()\n", files)


def test_timing_in_a_child(files: tuple[str, str]) -> None:
    run(
        "def child():\n"
        "    timed = module.benchmark(repeat=2, number=2).mean\n"
        "    return timed > 0 and module.benchmark(end_to_end=True).mean > 0\n"
        "assert succeeded(fork(child))\n",
        files,
    )


def test_a_pool_of_processes(files: tuple[str, str]) -> None:
    """They end by os._exit: nothing is said about that."""
    said = run(
        "def work(_): return right()\n"
        "with multiprocessing.get_context('fork').Pool(3) as pool:\n"
        "    assert pool.map(work, range(12)) == [True] * 12\n",
        files,
    )
    assert said == ""


def test_a_child_of_a_thread_that_never_ran_ends_like_any_program(
    files: tuple[str, str],
) -> None:
    run(
        "def parent():\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        signal.alarm(60)\n"
        "        if not right(): os._exit(1)\n"
        "        return\n"  # the last thread of the child ends, and so does the child
        "    ended.append(succeeded(pid))\n"
        "ended = []\n"
        "thread = threading.Thread(target=parent); thread.start(); thread.join()\n"
        "assert ended == [True]\n",
        files,
    )


def test_a_child_that_would_hang_as_it_ends_says_why(files: tuple[str, str]) -> None:
    said = run(
        "reader, writer = os.pipe()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    pipe = logging.StreamHandler(os.fdopen(writer, 'w'))\n"
        "    logging.getLogger('tvm_neocpu').addHandler(pipe)\n"
        "    assert right()\n"
        "    sys.exit()\n"
        "os.close(writer)\n"
        "print(os.fdopen(reader).readline())\n"
        "os.kill(pid, signal.SIGKILL)\n"
        "os.waitpid(pid, 0)\n",
        files,
    )
    assert "end it with os._exit(), or use multiprocessing" in said


def test_an_error_in_a_child_is_the_same_error(files: tuple[str, str]) -> None:
    run(
        "def child():\n"
        "    try:\n"
        "        module.run(data=image[0])\n"
        "    except tvm_neocpu.NeoCpuError as error:\n"
        "        return 'is [1, 8, 56, 56]' in str(error)\n"
        "assert succeeded(fork(child))\n",
        files,
    )


SUBMITS = """
from tvm_neocpu.runtime.streams.streams import Streams
module = "concurrent.futures"
streams = Streams([sorted(os.sched_getaffinity(0))[:1]], lambda cpus: None)
def call(): return streams.submit(lambda _: "answer").result() == "answer"
"""
ASKS_THE_RUNTIME = """
from tvm_neocpu.runtime.ffi.tvm_library import runtime_function
module = "tvm_neocpu.runtime.ffi.light.objects"
def call(): return runtime_function("runtime.NumThreads")() > 0
"""


@pytest.mark.parametrize("first", [SUBMITS, ASKS_THE_RUNTIME])
def test_a_child_may_call_though_its_parent_was_importing(first: str) -> None:
    """Python's lock of a module is held in the child by a thread that does not exist there."""
    script = """
import importlib.abc, sys, threading, time

asked = threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            asked.set()
            time.sleep(0.5)

def answered():
    signal.alarm(10)
    return call()

assert module not in sys.modules
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=call)
thread.start()
asked.wait()
assert succeeded(fork(answered))
thread.join()
"""
    run_script(FORK + first + script)


def test_a_child_loads_the_runtime_though_its_parent_was_loading_it() -> None:
    script = """
import threading, time
from tvm_neocpu.runtime.ffi import tvm_library

held = threading.Event()

def loading():
    with tvm_library._lock:
        held.set()
        time.sleep(0.5)

def loaded():
    signal.alarm(10)
    tvm_library.load_runtime()
    return tvm_library._is_loaded

threading.Thread(target=loading).start()
held.wait()
assert succeeded(fork(loaded))
"""
    run_script(FORK + script)


def test_ctrl_c_during_fork_leaves_no_lock() -> None:
    """Python hears it as it begins what comes after a fork."""
    run_script(
        "import ctypes, functools, os, signal, threading\n"
        "interrupt = map(getattr(ctypes.CDLL(None), 'raise'), [signal.SIGINT])\n"
        # Registered first, this comes last before a fork; without Python's code nothing hears it.
        "os.register_at_fork(before=functools.partial(next, interrupt, None))\n"
        "from tvm_neocpu.runtime.process import forking\n"
        "lock, found = forking.fork_lock(), []\n"
        "try:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
        "other = threading.Thread(target=lambda: found.append(lock.acquire(timeout=5)))\n"
        "other.start(); other.join()\n"
        "assert found == [True]\n"
    )


def test_locks_that_are_made_while_several_threads_fork() -> None:
    """Each fork unlocks what it has locked itself."""
    run_script(
        "import os, threading\n"
        "from tvm_neocpu.runtime.process import forking\n"
        "kept = []\n"
        "def work():\n"
        "    for _ in range(100):\n"
        "        kept.append(forking.fork_lock())\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            os._exit(0)\n"
        "        os.waitpid(child, 0)\n"
        "threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]\n"
        "for thread in threads:\n"
        "    thread.start()\n"
        "for thread in threads:\n"
        "    thread.join(60)\n"
        "assert not any(thread.is_alive() for thread in threads)\n"
        "assert all(lock.acquire(timeout=1) for lock in kept)\n"
    )
