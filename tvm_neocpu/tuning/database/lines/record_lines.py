"""One record as one line of AutoTVM's JSON format, version 0.2, and back; nothing is executed.

    {"input": [target, task, args, {}],
     "config": {"index": -1, "code_hash": null, "entity": [...]},
     "result": [[seconds, ...], error_no, all_cost, timestamp],
     "version": 0.2, "tvm_version": "0.27.0",
     "neocpu": {"cpu": "skylake-avx512", "threads": 2, "version": "0.1.0",
                "features": "83f1c0de", "template": "4a4b1a1d", "protocol": 2, "readings": 3}}

The ``"neocpu"`` key says what AutoTVM left out of a record's key, and with ``tvm_version`` what its
time depends on (:mod:`.staleness`); AutoTVM's reader ignores ours. ``readings`` is said of records
that were taken in a network (:attr:`Record.readings`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from tvm_neocpu.core.errors import LineError, NewerFormatError, first_line
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record, Stamp
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.tvm_version import tvm_version
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.tuning.database.lines.entities import decode_config, encode_config
from tvm_neocpu.tuning.database.lines.staleness import record_stamp
from tvm_neocpu.tuning.database.lines.task_args import decode_workload
from tvm_neocpu.version import __version__

FORMAT_VERSION = 0.2
# AutoTVM's TVM named its NCHWc tasks so on every CPU, ARM included.
TASK_SUFFIX = ".x86"
# What AutoTVM wrote for the cost of a candidate that failed.
FAILED_COST = 1e9
# AutoTVM's MeasureErrorNo.UNKNOWN_ERROR: the line holds no measurement.
NOT_MEASURED = 8
# A hostile line may quote itself in what is wrong with it.
_MAX_REASON = 200
_MCPU = re.compile(r"-mcpu[= ](\S+)")

Row = dict[str, Any]


def encode_record(record: Record) -> str:
    """The record's line, without the newline; a record without a stamp gets today's."""
    costs = record.costs or ((FAILED_COST,) if record.error_no else ())
    result = [list(costs), record.error_no, record.all_cost, record.timestamp]
    row = row_of(record.workload, record.config, result, record.cpu, record.threads)
    stamp_row(row, record.stamp or record_stamp(record.config), record.features)
    if record.readings:
        row["neocpu"]["readings"] = record.readings
    return json.dumps(row)


def encode_hint(record: Record, origin: str) -> str:
    """The line of a candidate that ``import`` took from a log of the CPU ``origin``."""
    row = json.loads(encode_record(record))
    row["neocpu"]["hint"] = origin
    return json.dumps(row)


def is_hint_row(row: Row) -> bool:
    """Whether a record's line is a candidate that somebody imported, kept though it is stale."""
    return "hint" in ours_of(row)


def decode_record(row: Row) -> Record:
    """The inverse of :func:`encode_record` on a parsed line; also reads AutoTVM's own lines.

    Raises LineError for a line that does not hold a record of one of our templates.
    """
    target, task, args, _ = list_of(row, "input", 4)
    template = template_of(task)
    ours = ours_of(row)
    workload, config = decode_workload(template, args, ours), config_of(row, template)
    check_fit(workload, config)
    return Record(
        workload=workload,
        config=config,
        cpu=cpu_of(target, ours),
        threads=threads_of(ours),
        features=features_of(ours),
        stamp=stamp_of(row, ours),
        readings=whole(ours.get("readings", 0), "readings"),
        **decode_result(row),
    )


def decode_result(row: Row) -> dict[str, Any]:
    """The fields of a record that its ``result`` says; raises LineError."""
    costs, error_no, all_cost, timestamp = list_of(row, "result", 4)
    error = whole(error_no, "error number")
    return {
        "costs": _costs(costs, error),
        "error_no": error,
        "all_cost": number(all_cost),
        "timestamp": number(timestamp),
    }


def check_fit(workload: Workload, config: Config) -> None:
    """Raise LineError for a config that cannot compute its workload."""
    reason = implementation_of(config).misfit(workload, config)
    if reason is not None:
        raise LineError(f"its config does not fit {workload}: {reason}")


def reason_of(error: LineError) -> str:
    """Why a line was skipped, as one short line."""
    return first_line(error)[:_MAX_REASON]


def parse_line(line: bytes) -> Row | None:
    """A line of the file as a dictionary, ``None`` for a blank one or a comment.

    Raises LineError, as :func:`parse_row` does.
    """
    line = line.strip()
    if not line or line.startswith(b"#"):
        return None
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise LineError("not UTF-8 text") from None
    return parse_row(text)


def parse_row(text: str) -> Row:
    """The line as a dictionary; raises LineError if it is no JSON object of a version we know."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        raise LineError("not JSON, perhaps torn") from None
    if not isinstance(row, dict):
        raise LineError("not a JSON object")
    if "v" in row or "input" not in row:
        raise LineError("not an AutoTVM record of version 0.2")
    check_version(row)
    return row


def check_version(row: Row) -> None:
    """Raise LineError for a format that is newer than ours."""
    if not number(row.get("version", FORMAT_VERSION)) <= FORMAT_VERSION:
        raise NewerFormatError(f"format version {row['version']!r} is newer than {FORMAT_VERSION}")


def newer_format(lines: Iterable[bytes]) -> str | None:
    """The format of the first line that is newer than ours, in words; ``None`` if none is."""
    for line in lines:
        try:
            parse_line(line)
        except NewerFormatError as error:
            return str(error)
        except LineError:
            continue
    return None


def row_of(workload: Workload, config: Config, result: list[Any], cpu: str, threads: int) -> Row:
    """What a record's line and a plan's line for a convolution have in common."""
    task = config.template + TASK_SUFFIX
    row = blank_row(task, workload.args(), encode_config(config, workload), result, cpu, threads)
    row["neocpu"] |= workload.extras()
    return row


def blank_row(
    task: str, args: list[Any], entity: list[Any], result: list[Any], cpu: str, threads: int
) -> Row:
    return {
        "input": [f"llvm -mcpu={cpu}" if cpu else "llvm", task, args, {}],
        "config": {"index": -1, "code_hash": None, "entity": entity},
        "result": result,
        "version": FORMAT_VERSION,
        "tvm_version": tvm_version(),
        "neocpu": {"cpu": cpu, "threads": threads, "version": __version__},
    }


def stamp_row(row: Row, stamp: Stamp, features: str) -> None:
    """Write a stamp and the CPU's features into a line; what is empty stays unsaid."""
    row["tvm_version"] = stamp.tvm
    said = {"features": features, "template": stamp.template, "protocol": stamp.protocol}
    row["neocpu"] |= {key: value for key, value in said.items() if value}


def stamp_of(row: Row, ours: Row) -> Stamp:
    """The stamp of a line, empty where it says nothing."""
    template, tvm = ours.get("template", ""), row.get("tvm_version", "")
    if not (isinstance(template, str) and isinstance(tvm, str)):
        raise LineError("its versions are not texts")
    return Stamp(template, tvm, whole(ours.get("protocol", 0), "protocol"))


def features_of(ours: Row) -> str:
    """The hash of the CPU's features, empty where it was not written down."""
    features = ours.get("features", "")
    if not isinstance(features, str):
        raise LineError("its features are not a text")
    return features


def template_of(task: Any) -> str:
    """``"conv2d_NCHWc.x86"`` -> ``"conv2d_NCHWc"``, whatever the suffix."""
    if not isinstance(task, str):
        raise LineError(f"task {task!r} is not a name")
    return task.partition(".")[0]


def config_of(row: Row, template: str) -> Config:
    config = row.get("config")
    return decode_config(template, config.get("entity") if isinstance(config, dict) else None)


def ours_of(row: Row) -> Row:
    """The ``"neocpu"`` key, empty for a line of AutoTVM's."""
    ours = row.get("neocpu", {})
    if not isinstance(ours, dict):
        raise LineError("its neocpu key is not an object")
    return ours


def cpu_of(target: Any, ours: Row) -> str:
    """The CPU's name: ours, else the target's ``-mcpu``, else nothing."""
    cpu = ours.get("cpu")
    if isinstance(cpu, str):
        return cpu
    found = _MCPU.search(target) if isinstance(target, str) else None
    return found.group(1) if found else ""


def threads_of(ours: Row) -> int:
    """The thread count, 0 where it was not written down."""
    return whole(ours.get("threads", 0), "thread count")


def _costs(costs: Any, error_no: int) -> tuple[float, ...]:
    if not isinstance(costs, list):
        raise LineError("its costs are not a list")
    if error_no and costs == [FAILED_COST]:
        return ()
    # One loop, since logs have millions of costs; what is no float here is looked at closely.
    for cost in costs:
        if not (type(cost) is float and 0 < cost < math.inf):
            break
    else:
        return tuple(costs)
    numbers = tuple(number(cost) for cost in costs)
    if not all(cost > 0 for cost in numbers):
        raise LineError("its costs are not positive seconds")
    return numbers


def list_of(row: Row, key: str, length: int) -> list[Any]:
    """``row[key]``, which must be a list of that length."""
    value = row.get(key)
    if not isinstance(value, list) or len(value) != length:
        raise LineError(f"its {key} is not a list of {length}")
    return value


def whole(value: Any, what: str) -> int:
    """A value of a line that counts something."""
    if type(value) is not int or value < 0:
        raise LineError(f"{what} {value!r} is not a whole number")
    return value


def number(value: Any) -> float:
    """A finite number of a line."""
    if type(value) not in (int, float):
        raise LineError(f"{value!r} is not a number")
    try:
        found = float(value)
    except OverflowError:
        raise LineError("a number is too large") from None
    if not math.isfinite(found):
        raise LineError(f"{value!r} is not a number")
    return found
