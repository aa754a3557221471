"""What a history asks of a log, whether it is read already or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.verdict import Settled, Verdict
from tvm_neocpu.tuning.database.best_records import RecordSource
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey


class Log(RecordSource, Protocol):
    """What a history asks of a log: :class:`LogContents` in memory, :class:`IndexedLog` of a file.

    ``machines`` are the (CPU, thread count) pairs of its records, ``plan_keys`` what it may have
    plans for.
    """

    @property
    def paths(self) -> tuple[Path, ...]: ...
    @property
    def machines(self) -> frozenset[tuple[str, int]]: ...
    @property
    def plan_keys(self) -> frozenset[PlanKey]: ...
    @property
    def verdicts(self) -> Sequence[Verdict]: ...
    @property
    def settled(self) -> Sequence[Settled]: ...
    def plan(self, key: PlanKey) -> Plan | None: ...
