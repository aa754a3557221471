"""Many records, quickly: what lines have in common is decoded once.

    {"input": [...], "config": {...}, "result": [...], "version": 0.2, "tvm_version": ..., ...}
    begin            config           result                           end

Begin and end say the workload, the machine and the stamp: all lines of a workload in one session
have the same. A config recurs in many workloads. What is left for each line is its result. A line
of another form (AutoTVM's) is decoded as a whole.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.database.lines.plan_lines import is_plan_row
from tvm_neocpu.tuning.database.lines.record_lines import (
    Row,
    check_fit,
    check_version,
    config_of,
    decode_record,
    decode_result,
    parse_line,
)
from tvm_neocpu.tuning.database.lines.verdict_lines import is_verdict_row

_CONFIG, _RESULT, _TVM = b', "config": ', b', "result": ', b', "tvm_version": '
_decode = json.JSONDecoder().decode
# Between `_RESULT` and `_TVM` of a line of ours.
_RESULT_KEYS = {"result", "version"}


class RecordReader:
    """Reads lines of one log or several. Not for several threads at once."""

    def __init__(self) -> None:
        # A record of these ends: its result is another line's.
        self._samples: dict[tuple[bytes, bytes], Record] = {}
        self._configs: dict[tuple[str, bytes], Config] = {}
        self._fitting: set[tuple[Workload, Config]] = set()

    def read(self, line: bytes) -> Record | Row | None:
        """A record, the row of a line that is none, ``None`` for a blank line or a comment.

        Raises LineError.
        """
        begin, middle, end = line.find(_CONFIG), line.rfind(_RESULT), line.rfind(_TVM)
        if not 0 < begin < middle < end:
            return _whole(line)
        ends = line[:begin], line[end:]
        sample = self._samples.get(ends)
        if sample is None:
            found = _whole(line)
            if isinstance(found, Record):
                self._samples[ends] = found
            return found
        result = _object(line[middle + 2 : end])
        if result.keys() != _RESULT_KEYS:
            return _whole(line)
        check_version(result)
        config = self._config(sample.config.template, line[begin + 2 : middle])
        key = (sample.workload, config)
        if key not in self._fitting:
            check_fit(*key)
            self._fitting.add(key)
        return replace(sample, config=config, **decode_result(result))

    def _config(self, template: str, text: bytes) -> Config:
        key = (template, text)
        if key not in self._configs:
            row = _object(text)
            if row.keys() != {"config"}:
                raise LineError("not a record of ours, perhaps torn")
            self._configs[key] = config_of(row, template)
        return self._configs[key]


def _whole(line: bytes) -> Record | Row | None:
    row = parse_line(line)
    if row is None or is_plan_row(row) or is_verdict_row(row):
        return row
    return decode_record(row)


def _object(members: bytes) -> dict[str, Any]:
    """The members of an object, without its braces, parsed."""
    try:
        found: dict[str, Any] = _decode(f"{{{members.decode()}}}")
    except (ValueError, RecursionError):
        raise LineError("not JSON, perhaps torn") from None
    return found
