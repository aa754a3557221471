"""`tvm_ffi` in parts: what a session needs is there, the rest comes when it is asked for."""

from __future__ import annotations

import pytest
from fresh_process import run_script

# A part that no session needs, and that the package's own import brings.
REST = "tvm_ffi.structural"


def run(body: str) -> str:
    done = run_script(f"import sys, threading, tvm_neocpu\nREST = {REST!r}\n{body}")
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_tensor_needs_a_part_of_tvm_ffi() -> None:
    assert run("import tvm_ffi; tvm_ffi.Tensor; print(REST in sys.modules)") == "False"


@pytest.mark.parametrize(
    "use",
    [
        "import tvm_ffi; tvm_ffi.structural_equal",
        "from tvm_ffi import StructuralKey",
        "from tvm_ffi import *; structural_hash",
        "import tvm",
    ],
)
def test_what_is_asked_for_later_is_all_of_it(use: str) -> None:
    assert (
        run(f"import tvm_ffi; tvm_ffi.Tensor; exec({use!r}); print(REST in sys.modules)") == "True"
    )


def test_its_classes_stay_the_same() -> None:
    body = (
        "import numpy as np, tvm_ffi\n"
        "early, tensor = tvm_ffi.Tensor, tvm_ffi.from_dlpack(np.zeros(3, 'float32'))\n"
        "tvm_ffi.__version__\n"
        "print(early is tvm_ffi.Tensor, isinstance(tensor, tvm_ffi.Tensor), tensor.shape)"
    )
    assert run(body) == "True True (3,)"


def test_lists_and_errors_pass_before_the_rest_is_there() -> None:
    body = (
        "import tvm_ffi\n"
        "tvm_ffi.Tensor\n"
        "array = tvm_ffi.get_global_func('ffi.Array')(1, 2)\n"
        "try: tvm_ffi.get_global_func('ffi.ArrayGetItem')(array, 7)\n"
        "except IndexError as error: print(list(array), REST in sys.modules)"
    )
    assert run(body) == "[1, 2] False"


def test_threads_that_ask_at_once_all_get_it() -> None:
    body = (
        "import tvm_ffi\n"
        "together, found = threading.Barrier(8), []\n"
        "def ask():\n"
        "    together.wait(); found.append(tvm_ffi.structural_equal)\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(len(found), len(set(map(id, found))))"
    )
    assert run(body) == "8 1"


def test_a_name_that_it_never_had_is_an_attribute_error() -> None:
    body = (
        "import tvm_ffi\n"
        "for _ in range(2):\n"
        "    try: tvm_ffi.no_such_name\n"
        "    except AttributeError as error: print(error)"
    )
    line = "module 'tvm_ffi' has no attribute 'no_such_name'"
    assert run(body) == f"{line}\n{line}"


@pytest.mark.parametrize(
    ("table", "other"),
    [
        ("_NAMES", {"Module": "tvm_ffi.elsewhere"}),
        ("_NAMES", {"Module": "tvm_ffi.core"}),
        ("_CLASSES", ("elsewhere",)),
    ],
)
def test_a_version_with_other_parts_is_imported_whole(table: str, other: object) -> None:
    body = (
        "import tvm_ffi\n"
        "from tvm_neocpu.runtime.ffi import ffi_on_demand\n"
        f"ffi_on_demand.{table} = {other!r}\n"
        "print(tvm_ffi.Module.__module__, REST in sys.modules)"
    )
    assert run(body) == "tvm_ffi.module True"


def test_an_interrupted_import_begins_anew() -> None:
    body = (
        "import tvm_ffi\n"
        "loader = tvm_ffi.__spec__.loader\n"
        "def interrupted(module): raise KeyboardInterrupt\n"
        "loader.exec_module = interrupted\n"
        "try: tvm_ffi.structural_equal\n"
        "except KeyboardInterrupt: del loader.exec_module\n"
        "print(tvm_ffi.structural_equal.__name__, hasattr(tvm_ffi, '__getattr__'))"
    )
    assert run(body) == "structural_equal False"


def test_who_imported_it_before_keeps_it() -> None:
    done = run_script("import tvm_ffi, sys, tvm_neocpu; print('tvm_ffi.structural' in sys.modules)")
    assert (done.stdout.strip(), done.stderr) == ("True", "")
