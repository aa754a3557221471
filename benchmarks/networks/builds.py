"""Cold builds: seconds of `relay.build` by network, and what memory it takes beside the weights.

    python benchmarks/networks/builds.py resnet50 densenet121 --json builds.json

Each network is built in a process of its own, with an empty cache folder. Seconds begin when the
ONNX module has been imported, and contain what `relay.build` imports of this package at its first
call, from bytecode, as `pip install` leaves it. ``cpu_seconds`` are those of all threads and of the
linker: they tell more where other processes run. ``grown_mb`` is by how much the process's largest
resident set grows.

`--session` measures `Session(file)` instead, import and file counted; the process has imported the
compiler before. Its ``anonymous_mb`` are the part of the growth that is no mapped file, looked at
every two milliseconds.

`--source DIR` builds with another checkout of the package, for comparisons in turns; each row names
its commit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ONE, SESSION = "--one", "--session"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=1, help="the fastest one counts")
    parser.add_argument("--json", type=Path, metavar="F")
    parser.add_argument(SESSION, action="store_true", help="of the network's file")
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[2], metavar="DIR")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(prefix="neocpu-") as bytecode:
        environment = environment_of(options.source, bytecode)
        for network in options.networks:
            words = [network, *([SESSION] if options.session else [])]
            builds = [built(words, environment) for _ in range(options.rounds)]
            rows.append(min(builds, key=lambda row: row["seconds"]))
            print(
                "{network}: {seconds} s, {cpu_seconds} s of CPU; "
                "{grown_mb} MB of memory for {weights_mb} MB of weights".format(**rows[-1]),
                *(f"({rows[-1][key]} MB anonymous)" for key in ["anonymous_mb"] if key in rows[-1]),
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def environment_of(source: Path, bytecode: str) -> dict[str, str]:
    """Processes that run a checkout's sources, compiled into the folder ``bytecode``."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", "import tvm_neocpu.compile_cache, tvm_neocpu.specialize, onnx"]
    subprocess.run(command, env=environment, check=True)
    return environment


def built(words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The row of one network, from a process of its own."""
    with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
        cached = {**environment, "TVM_NEOCPU_CACHE": folder}
        command = [sys.executable, __file__, ONE, *words]
        found = subprocess.run(command, env=cached, stdout=subprocess.PIPE, text=True, check=True)
    row: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return row


def build_one(network: str) -> dict[str, Any]:
    """Build a network in this process, once."""
    import onnx

    from tvm_neocpu import relay
    from tvm_neocpu.contrib import model_zoo
    from tvm_neocpu.runtime.process.heap import give_back

    model = model_zoo.build(network)
    weights = sum(onnx.numpy_helper.to_array(each).nbytes for each in model.graph.initializer)
    mod, params = relay.frontend.from_onnx(model, {"data": model_zoo.input_shape(network)})
    del model
    give_back()
    forget_peak()
    before, cpu, start = resident(), cpu_seconds(), time.perf_counter()
    relay.build(mod, target="llvm", params=params)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    grown = resident() - before
    return row_of(network, seconds, cpu, weights_mb=weights, grown_mb=grown)


def session_of_file(network: str) -> dict[str, Any]:
    """Compile a network's file in this process, once."""
    import onnx

    import tvm_neocpu
    import tvm_neocpu.compile_cache
    import tvm_neocpu.frontend.onnx_import
    import tvm_neocpu.specialize
    from tvm_neocpu.contrib import model_zoo
    from tvm_neocpu.runtime.process.heap import give_back

    with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
        path = Path(folder) / "network.onnx"
        onnx.save(model_zoo.build(network), path)
        give_back()
        forget_peak()
        before, cpu, start = resident(), cpu_seconds(), time.perf_counter()
        with most_anonymous() as most:
            session = tvm_neocpu.Session(path)
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        grown, weights = resident() - before, path.stat().st_size
        session.close()
    anonymous = most[-1] - most[0]
    return row_of(network, seconds, cpu, weights_mb=weights, grown_mb=grown, anonymous_mb=anonymous)


def row_of(network: str, seconds: float, cpu: float, **sizes: int) -> dict[str, Any]:
    """A row of the result; ``sizes`` are in bytes."""
    from tvm_neocpu import parse_target
    from tvm_neocpu.contrib.provenance import provenance

    target = parse_target().cpu
    return {
        "network": network,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        **{name: round(size / 1e6, 1) for name, size in sizes.items()},
        **provenance(target.name, target.cores),
    }


@contextlib.contextmanager
def most_anonymous() -> Iterator[list[int]]:
    """Bytes of anonymous memory: the first entry is that at the start, the last one the maximum."""
    found, ended = [status("RssAnon")], threading.Event()

    def look() -> None:
        while not ended.wait(0.002):
            found.append(max(found[-1], status("RssAnon")))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        ended.set()
        looking.join()


def cpu_seconds() -> float:
    """Of this process and of those that it waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def forget_peak() -> None:
    """Begin to look for the largest resident set from here."""
    Path("/proc/self/clear_refs").write_text("5")


def resident() -> int:
    """The largest resident set since :func:`forget_peak`, in bytes."""
    return status("VmHWM")


def status(name: str) -> int:
    """What the system says of this process's memory, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(name))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    if sys.argv[1:2] == [ONE]:
        one = session_of_file if SESSION in sys.argv else build_one
        print(json.dumps(one(sys.argv[2])))
    else:
        sys.exit(main())
