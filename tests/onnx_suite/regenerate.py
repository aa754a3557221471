"""Run ONNX's suites and write what becomes of each case to expected.txt.

    python tests/onnx_suite/regenerate.py                   all cases
    python tests/onnx_suite/regenerate.py Conv Resize       these families; the others stay

It refuses to write that a case fails which passed before, and lists such cases; `--force` writes
all the same. Cases run in a process of their own, which is started again when one ends it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]

from onnx_suite import (  # noqa: E402
    EXPECTED,
    FAIL,
    NEVER,
    PASS,
    Family,
    cases,
    outcome,
    read_expected,
    write_expected,
)

# A case that takes longer hangs. A compilation takes seconds at most, minutes on a busy machine.
SECONDS = 300
_STARTED = "started"


def main() -> int:
    options = _parse()
    if options.worker:
        return _work(options.worker)
    before = {
        name: status
        for family in read_expected()[1].values()
        for name, status in family.status.items()
    }
    known = cases()
    wanted = [
        case.name
        for case in known.values()
        if not options.families or case.family in options.families
    ]
    found = _run(wanted)
    lost = [name for name in wanted if before.get(name) == PASS and found[name][0] != PASS]
    for name in lost:
        print(f"passed before: {name}: {found[name][1]}")
    if lost and not options.force:
        print(f"{EXPECTED} stays as it is: {len(lost)} cases would no longer pass")
        return 1
    _write(found)
    print(Counter(status for status, _ in found.values()))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("families", nargs="*", help="operators, or suites of models")
    parser.add_argument("--force", action="store_true", help="cases that passed may fail")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _write(found: dict[str, tuple[str, str]]) -> None:
    _, families = read_expected()
    known = cases()
    for family in families.values():  # cases that onnx no longer has
        family.status = {name: each for name, each in family.status.items() if name in known}
    for name, (status, detail) in found.items():
        family = families.setdefault(known[name].family, Family())
        family.status[name], family.detail[name] = status, detail
    for family in families.values():
        if set(family.status.values()) == {PASS}:
            family.reason = ""
    write_expected({name: family for name, family in families.items() if family.status})


def _run(names: list[str]) -> dict[str, tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        while True:
            found = _read(log)
            for name, (status, _) in found.items():
                if status == _STARTED:
                    found[name] = (NEVER, "ends or stops the process")
                    with log.open("a") as file:
                        file.write(f"{NEVER}\t{name}\t{found[name][1]}\n")
            missing = [name for name in names if name not in found]
            if not missing:
                return found
            _run_worker(log, missing)


def _run_worker(log: Path, names: list[str]) -> None:
    command = [sys.executable, __file__, "--worker", str(log)]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert worker.stdin
    worker.stdin.write("\n".join(names))
    worker.stdin.close()
    while worker.poll() is None:
        time.sleep(0.2)
        if time.time() - log.stat().st_mtime > SECONDS:
            worker.kill()


def _read(log: Path) -> dict[str, tuple[str, str]]:
    """The last line of each case."""
    found = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        status, name, detail = line.split("\t", 2)
        found[name] = (status, detail)
    return found


def _work(log: Path) -> int:
    names = sys.stdin.read().split()
    known = cases()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # TVM prints the inputs of nodes that it refuses
    with log.open("a", buffering=1, encoding="utf-8") as file:
        for name in names:
            file.write(f"{_STARTED}\t{name}\t\n")
            detail = outcome(known[name])
            file.write(f"{FAIL if detail else PASS}\t{name}\t{detail}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
