"""`python -m tvm_neocpu bench deploy resnet50`: what each engine costs until its first answer.

Fresh processes in turns: time to the end of the imports, of loading, of the first inference; memory
then, in all and the process's own; the size of the file. Linux only.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from tvm_neocpu.commands.shared import cli, disk, networks
from tvm_neocpu.contrib.deploy.first_inference import PACKAGES, FirstInference, first_inference
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.runtime.files.module_info import OPEN
from tvm_neocpu.runtime.process import threads

OURS = "tvm_neocpu"
_MIB = 2**20


def bench_deploy(argv: list[str]) -> int:
    """The ``deploy`` subcommand of ``bench``; returns its exit code."""
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    if not Path("/proc/self/status").exists():
        raise NeoCpuError("bench deploy reads /proc, which Linux alone has")
    count = threads.take_cores(options.threads)
    disk.check_writable(options.json)
    report: dict[str, Any] = {"networks": []}
    for spec in options.models:
        name, model = cli.load_network(spec)
        with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
            library = networks.build(model, options, flags)
            files = {OURS: Path(folder) / f"{name}.so"}
            library.export_library(files[OURS])
            content = Path(folder) / f"{name}.onnx"
            content.write_bytes(model.SerializeToString())
            peers = [p for p, package in PACKAGES.items() if p != OURS and find_spec(package)]
            files |= dict.fromkeys(peers, content)
            inputs = {
                info.name: (tuple(1 if d == OPEN else d for d in info.shape), info.dtype)
                for info in library.info.inputs
            }
            found: dict[str, list[FirstInference]] = {engine: [] for engine in files}
            for _ in range(1 + options.runs):
                for engine, file in files.items():
                    found[engine].append(first_inference(engine, file, inputs, count))
            found = {engine: answers[1:] for engine, answers in found.items()}  # see the bytecode
            rows = {
                engine: _row(found[engine], file.stat().st_size) for engine, file in files.items()
            }
        _show(name, rows, count)
        report["networks"].append({"network": name, "engines": rows})
        report = {**provenance(library.info.cpu, count, PACKAGES.values()), **report}
    disk.write_report(options.json, report)
    return 0


def _row(found: list[FirstInference], size: int) -> dict[str, float]:
    """Medians: milliseconds, and MiB."""

    def middle(field: str) -> float:
        return median(getattr(one, field) for one in found)

    return {
        "imported_ms": middle("imported") * 1e3,
        "loaded_ms": middle("loaded") * 1e3,
        "first_inference_ms": middle("answered") * 1e3,
        "resident_mib": middle("resident") / _MIB,
        "own_mib": middle("anonymous") / _MIB,
        "file_mib": size / _MIB,
    }


def _show(name: str, rows: dict[str, dict[str, float]], count: int) -> None:
    table = Table(
        title=f"{name}, {plural(count, 'thread')}: from the start of a process to its first answer",
        caption="medians; own: memory that no other process shares",
    )
    for heading in ("engine", "import ms", "load ms", "answer ms", "MiB", "own MiB", "file MiB"):
        table.add_column(heading, justify="left" if heading == "engine" else "right")
    for engine, row in rows.items():
        table.add_row(engine, *(f"{value:.0f}" for value in row.values()))
    cli.console(width=100).print(table)


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m tvm_neocpu bench deploy", description=__doc__)
    cli.add_common_options(parser)
    parser.add_argument(
        "--runs", type=cli.positive, default=5, help="processes of each engine (default: 5)"
    )
    cli.add_json_option(parser)
    return parser
