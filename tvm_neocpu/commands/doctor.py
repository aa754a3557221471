"""The doctor command line: what a bug report needs, and whether anything is wrong here.

Prints versions, the machine, settings, folders, and the outcome of a small network that is
compiled, written, read and run. The exit code is 1 if one of the checks fails.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import first_line
from tvm_neocpu.core.machine.cache_sizes import cache_sizes
from tvm_neocpu.core.machine.cores import allowed_cpus, physical_cores
from tvm_neocpu.runtime.files.linker import c_compiler
from tvm_neocpu.runtime.process import threads

PACKAGES = (
    "apache-tvm",
    "apache-tvm-ffi",
    "numpy",
    "onnx",
    "onnxruntime",
    "openvino",
    "MNN",
    "ncnn",
    "scipy",
    "xgboost",
)
_OWN_VARIABLES = ("TVM_", "OMP_NUM_THREADS", "CC", "CXX")
FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_doctor, argv)


def _doctor(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    disk.check_writable(options.json)
    report = examine()
    for title, rows in report.items():
        print(f"{title}:")
        for name, value in rows.items():
            print(f"  {name:24} {value}")
    disk.write_report(options.json, report)
    return FAILED if any(text != "ok" for text in report["checks"].values()) else 0


def examine() -> dict[str, dict[str, Any]]:
    """Everything, in groups of names and values."""
    from tvm_neocpu.runtime.process.calibration_place import chosen_path
    from tvm_neocpu.targets import parse_target

    target = parse_target()
    about = provenance(target.cpu.name, threads.thread_count())
    machine = about["machine"]
    caches = ", ".join(f"L{k} {v // 1024} KiB" for k, v in sorted(cache_sizes().items()))
    path = chosen_path()
    measured = "off" if path is None else f"{path}{'' if path.exists() else ' (not there)'}"
    return {
        "versions": {**about["versions"], **_versions(), "python": about["python"]},
        "machine": {
            "cpu": machine["model"],
            "LLVM's name": machine["llvm_name"],
            "target": f"{target.cpu.name}, {target.cpu.isa.name}",
            "caches": caches or "unknown",
            "CPUs allowed": f"{len(allowed_cpus())} of {machine['cores']}",
            "physical cores": physical_cores(),
            "threads": about["threads"],
            "load": machine["load"],
            "platform": machine["platform"],
        },
        "settings": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_OWN_VARIABLES)
        },
        "files": {
            "package": Path(__file__).parents[1],
            "commit": about["commit"],
            "calibration": measured,
            "C compiler": c_compiler() or "none: exported files are .tar",
        },
        "checks": {name: _outcome(check) for name, check in CHECKS.items()},
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _outcome(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception as error:  # whatever is wrong here is the answer
        return f"FAILED: {type(error).__name__}: {first_line(error)}"
    return "ok"


def _settings_are_known() -> None:
    cli.check_environment()


def _a_network_runs() -> None:
    """LeNet compiled, exported, loaded and run: the same outputs twice, all finite."""
    from tvm_neocpu import relay
    from tvm_neocpu.contrib import model_zoo
    from tvm_neocpu.runtime.built_module import load
    from tvm_neocpu.runtime.session import CompiledSession

    mod, params = relay.frontend.from_onnx(model_zoo.build("lenet"))
    library = relay.build(mod, params=params, cache=False)
    image = np.random.default_rng(0).standard_normal((1, 1, 28, 28), dtype=np.float32)
    name = library.input_names[0]
    with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
        outputs = [_answer(CompiledSession(library), name, image)]
        if c_compiler() is not None:
            path = Path(folder) / "lenet.so"
            library.export_library(path)
            outputs.append(_answer(CompiledSession(load(path)), name, image))
    if not all(np.isfinite(found).all() and np.array_equal(found, outputs[0]) for found in outputs):
        raise ArithmeticError("a small network gives different or infinite outputs")


def _answer(session: Any, name: str, image: Any) -> Any:
    with session:
        return session.run(None, {name: image})[0]


CHECKS: dict[str, Callable[[], None]] = {
    "settings": _settings_are_known,
    "a network runs": _a_network_runs,
}


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu doctor", description=__doc__)
    cli.add_json_option(parser)
    return parser
