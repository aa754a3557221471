"""Two builds of a network: made ready to run, written to files, and the verdict on their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from in_turns import Run, runner
from numpy.typing import NDArray
from tvm.target import Target

from tvm_neocpu.codegen.kernel_cache import KernelCache
from tvm_neocpu.codegen.kernel_store import kernels_kept, store_for
from tvm_neocpu.codegen.network import compile_network

# Largest difference of outputs, as a share of the largest one.
TOLERANCE = 1e-5
# A gain below this is a loss, if three quarters of the rounds say so.
SLOWER = 0.98

Array = NDArray[Any]


def ready(mods: Sequence[tvm.IRModule], target: Target, data: Array) -> list[Run]:
    """What runs each; a kernel that the cache folder has is not compiled again."""
    kernels = KernelCache(target, store_for(target))
    return [runner(kernels.load(mod).mod, data) for mod in mods]


def save(
    network: str, folder: Path, mods: Mapping[str, tvm.IRModule], target: Target, data: Array
) -> None:
    """The builds by name, and their input, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{network}.npy", data)
    with kernels_kept(folder / "kernels"):
        for name, mod in mods.items():
            code = compile_network(mod, target)
            code.export_library(str(folder / f"{network}_{name}.so"))


def load(network: str, folder: Path, names: Sequence[str]) -> list[Run]:
    """What runs each of the builds that :func:`save` wrote."""
    data = np.load(folder / f"{network}.npy")
    files = (str(folder / f"{network}_{name}.so") for name in names)
    return [runner(tvm.runtime.load_module(file), data) for file in files]


def verdict(rows: Sequence[Mapping[str, Any]]) -> int:
    """The exit code: 1 where outputs differ or the second build is clearly slower, which is said.

    A row has ``network``, and ``gain``, ``quartiles`` and ``difference`` of `in_turns`.
    """
    wrong = [row["network"] for row in rows if not row["difference"] <= TOLERANCE]  # NaN is wrong
    slower = [r["network"] for r in rows if r["gain"] < SLOWER and r["quartiles"][1] < 1]
    print(f"outputs differ: {', '.join(wrong) or 'none'}; slower: {', '.join(slower) or 'none'}")
    return 1 if wrong or slower else 0
