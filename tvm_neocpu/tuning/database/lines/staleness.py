"""Which lines of a log still hold: stamps, and what becomes of a line whose stamp is old.

A time is a fact about code on a machine. The key says which code and which machine: workload,
config, CPU with its features, threads. The stamp says what else the time depends on:

- template version: a hash of the sources that make the code of the config. These are the room of
  the implementation (``topi/conv2d_direct``), the rooms that it imports (``topi/gemm``), and
  ``topi/schedule`` and ``topi/tir``, which all share. What decides which configs are tried but not
  how they run (``space``, the cost model) and files that only name things are left out;
- TVM's version, and LLVM's with it;
- the measuring protocol: alone between flushed caches, or in place in a network.

What a line is good for:

- A record with today's stamp is a measurement.
- A record with another stamp, or with none (AutoTVM's, those of earlier versions), is *stale*: a
  hint for the search, which tries its config first and measures it anew. Its time is never used,
  even where nothing else is known: then the cost model is asked, as without any log. Otherwise one
  old record of a slow clock would outweigh all that the model knows, and nobody would see it.
- A plan has no stamp: it says what to build, not how long that takes. It was compared as a whole,
  so that it is used for as long as each of its configs fits its workload (``usable_plan``). Shipped
  plans therefore outlive changes of the templates; shipped records then order the search.
- A workload is settled for one state of its operator's whole space: here ``space`` counts, since a
  new candidate may be faster. A verdict is for one state of all templates.

Of several protocols, the first of :data:`MEASURED_BY` with a record that worked counts for a
workload, since times of two protocols do not compare.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import tvm_neocpu.topi
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import IN_NETWORK, ISOLATED, Record, Stamp
from tvm_neocpu.core.network.verdict import Settled, Verdict
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.tvm_version import tvm_version
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import (
    all_implementations,
    find_implementation,
    implementations_of,
    operator_of,
)

# Protocols whose times count as measurements, the one that is believed most first.
MEASURED_BY = (IN_NETWORK, ISOLATED)

_TOPI = Path(tvm_neocpu.topi.__path__[0])
_SHARED = ("schedule", "tir")
_IMPORT = re.compile(rb"tvm_neocpu\.topi\.(\w+)\.")
# Files of a room that do not change the code of a config.
_NAMES = frozenset(("__init__", "implementation", "operator", "workload", "log", "text"))
_CHOICES = frozenset(("space", "cost", "reference"))
# The version of an implementation whose sources nobody can read (written in a console).
_NO_SOURCE = "no source"


def record_stamp(config: Config, protocol: int = ISOLATED) -> Stamp:
    """The stamp of a time that this process takes of a config."""
    return Stamp(template_version(config.template), tvm_version(), protocol)


def settled_stamp(workload: Workload, protocol: int = IN_NETWORK) -> Stamp:
    """The stamp of a workload that this process settles."""
    return Stamp(space_version(operator_of(workload).name), tvm_version(), protocol)


def verdict_stamp(protocol: int = IN_NETWORK) -> Stamp:
    """The stamp of a verdict that this process makes."""
    return Stamp(_digest(map(_version, all_implementations())), tvm_version(), protocol)


def why_stale(record: Record) -> str | None:
    """Why a record's time is no measurement any more, ``None`` if it is one."""
    if record.protocol not in MEASURED_BY:
        return f"measured by protocol {record.protocol}" if record.protocol else "unknown protocol"
    if record.stamp is None:
        return None
    return _difference(record.stamp, record_stamp(record.config, record.protocol))


def is_current(line: Record | Settled | Verdict) -> bool:
    """Whether a line of a log says something of the code that this process would build."""
    if isinstance(line, Record):
        return why_stale(line) is None
    if line.stamp is None:
        return True
    today = settled_stamp(line.workload) if isinstance(line, Settled) else verdict_stamp()
    return line.stamp.protocol in MEASURED_BY and _difference(line.stamp, today) is None


def _difference(stamp: Stamp, today: Stamp) -> str | None:
    """What tells two stamps of one protocol apart."""
    if stamp.tvm != today.tvm:
        return f"measured with TVM {stamp.tvm}"
    if stamp.template != today.template:
        return "its template has changed"
    return None


def template_version(template: str) -> str:
    """The hash of the sources that make a template's code; empty for one that nobody registered."""
    entry = find_implementation(template)
    return _version(entry) if entry is not None else ""


def space_version(operator: str) -> str:
    """The hash of the sources of all implementations of an operator, spaces included."""
    entries = implementations_of(operator)
    return _digest(_module_version(_module(entry), with_space=True) for entry in entries)


def _version(entry: Implementation) -> str:
    return _module_version(_module(entry), with_space=False)


def _module(entry: Implementation) -> str:
    return str(getattr(entry.compute, "__module__", ""))


@cache
def _module_version(module: str, with_space: bool) -> str:
    prefix = f"{tvm_neocpu.topi.__name__}."
    if not module.startswith(prefix):
        # Somebody's own implementation: its file stands for its room.
        file = getattr(sys.modules.get(module), "__file__", None)
        return _digest_of_files([Path(file)]) if file else _NO_SOURCE
    room = module.removeprefix(prefix).partition(".")[0]
    files = [path for each in _rooms(room) for path in _sources(each)]
    if with_space:
        files.append(_TOPI / room / "space.py")
    return _digest_of_files(path for path in files if path.exists())


def _rooms(room: str) -> list[str]:
    """The room, those that its code imports, directly or not, and the shared ones."""
    found: dict[str, None] = {}
    # The cost model changes often. Its constants that reach code, prefetching from which size on,
    # do not.
    waiting = [room, *_SHARED]
    while waiting:
        each = waiting.pop(0)
        if each in found or each in _CHOICES:
            continue
        found[each] = None
        for path in _sources(each):
            waiting += [name.decode() for name in _IMPORT.findall(_content(path))]
    return sorted(found)


def _sources(room: str) -> list[Path]:
    files = sorted((_TOPI / room).rglob("*.py"))
    return [path for path in files if path.stem not in _NAMES | _CHOICES]


def _digest_of_files(files: Iterable[Path]) -> str:
    try:
        return _digest(
            f"{path.name} {hashlib.sha256(_content(path)).hexdigest()}" for path in files
        )
    except OSError:
        return _NO_SOURCE


@cache
def _content(path: Path) -> bytes:
    return path.read_bytes()


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
