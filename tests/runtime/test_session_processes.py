"""Sessions in processes of their own: without TVM's package, and in forked children."""

from __future__ import annotations

from fresh_process import FORK, needs_fork, run_script

START = """
import signal, sys, threading, numpy as np, tvm_neocpu
image = np.load(sys.argv[2])
session = tvm_neocpu.Session(sys.argv[1])
answer = session.run({"data": image})["out"]

def right():
    return all(np.array_equal(session.run({"data": image})["out"], answer) for _ in range(3))
"""


def run(body: str, files: tuple[str, str], start: str = START, **variables: str) -> str:
    done = run_script(FORK + start + body, *files, **variables)
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_compiled_file_runs_without_the_compiler(files: tuple[str, str]) -> None:
    heavy = ("tvm", "onnx", "scipy", "xgboost", "rich")
    found = run(f"assert right(); print([n for n in {heavy} if n in sys.modules])", files)
    assert found == "[]"


def test_the_classic_module_does_too(files: tuple[str, str]) -> None:
    found = run(
        "module = tvm_neocpu.load(sys.argv[1])['default'](None)\n"
        "module.run(data=image)\n"
        "scores, other = module.get_output(0), np.empty((1, 16, 1, 1), 'float32')\n"
        "module.get_output(0, other)\n"
        "assert np.array_equal(scores.numpy(), answer) and np.array_equal(other, answer)\n"
        "assert module.benchmark(repeat=2, number=2).mean > 0\n"
        "print('tvm' in sys.modules)\n",
        files,
    )
    assert found == "False"


def test_tvm_may_be_imported_later(files: tuple[str, str]) -> None:
    found = run(
        "from tvm import relay\n"
        "import tvm\n"
        "assert right() and relay is tvm_neocpu.relay\n"
        "tensor = tvm.runtime.tensor(image)\n"
        "assert np.array_equal(session.run({'data': tensor})['out'], answer)\n"
        "print(tvm.relax.get_pipeline('neocpu') is not None)\n",
        files,
    )
    assert found == "True"


def test_a_machine_without_tvm_says_what_it_lacks(files: tuple[str, str]) -> None:
    found = run(
        "import sys, importlib.util, tvm_neocpu\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'tvm' else real(name, *a)\n"
        "try:\n"
        "    tvm_neocpu.Session(sys.argv[1])\n"
        "except tvm_neocpu.NeoCpuError as error:\n"
        "    print(error)\n",
        files,
        start="",
        TVM_LIBRARY_PATH="/no/such/folder",
    )
    assert "TVM's runtime is not here: pip install apache-tvm" in found
    assert "\n" not in found


@needs_fork
def test_children_have_threads_of_their_own(files: tuple[str, str]) -> None:
    run(
        "children = [fork(right) for _ in range(3)]\n"
        "assert all([right(), *map(succeeded, children)])\n"
        "assert succeeded(fork(lambda: succeeded(fork(right)) and right()))\n",
        files,
    )


@needs_fork
def test_a_fork_while_callers_are_at_work(files: tuple[str, str]) -> None:
    run(
        "end = threading.Event()\n"
        "def keep_running():\n"
        "    while not end.is_set():\n"
        "        session.run({'data': image})\n"
        "callers = [threading.Thread(target=keep_running) for _ in range(3)]\n"
        "for caller in callers: caller.start()\n"
        "found = [succeeded(child) for child in [fork(right) for _ in range(10)]]\n"
        "end.set()\n"
        "for caller in callers: caller.join()\n"
        "assert all(found), found\n",
        files,
    )


@needs_fork
def test_a_child_ends_like_any_program(files: tuple[str, str]) -> None:
    """No pool of TVM belongs to the main thread, so that nothing is left to hang there."""
    run(
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    signal.alarm(60)\n"
        "    assert right()\n"
        "    sys.exit()\n"
        "assert succeeded(pid)\n",
        files,
    )
