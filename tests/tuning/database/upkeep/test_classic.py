"""AutoTVM's and TopHub's lines as candidates of the user's log."""

from __future__ import annotations

import json

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.record import Stamp
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.history import current_history
from tvm_neocpu.tuning.database.lines.record_lines import encode_record
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.database.places import user_log
from tvm_neocpu.tuning.database.upkeep.classic import import_hints
from tvm_neocpu.tuning.database.upkeep.prune import prune_log

CPU = Cpu("testcpu", AVX2, 2)
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), stride=(2, 2), padding=(3, 3, 3, 3))


@pytest.fixture
def log() -> TuningLog:
    return TuningLog(user_log("testcpu"))


def test_tophubs_records_are_tried_first_and_never_believed(log, assets) -> None:
    found = import_hints(log, [assets / "autotvm_tophub.log", assets / "damaged.log"], CPU)
    assert (found.added, found.known, found.skipped) == (6, 0, 12)
    known = current_history(CPU)
    assert known.hints(STEM) == (ConvConfig(3, 16, 28, unroll_ker=False),)
    assert known.tried([STEM]) == {}
    first = json.loads(log.path.read_text().splitlines()[0])
    assert first["neocpu"]["hint"] == "skylake-avx512" and first["neocpu"]["cpu"] == "testcpu"


def test_importing_again_adds_nothing_and_pruning_keeps_it(log, assets) -> None:
    paths = [assets / "autotvm_tophub.log"]
    added = import_hints(log, paths, CPU).added
    again = import_hints(log, paths, CPU)
    assert added > 0 and (again.added, again.known) == (0, added)
    assert prune_log(log).kept == added


def test_the_fastest_of_each_workload_are_taken_once(log, tmp_path, make_record, conv) -> None:
    path = tmp_path / "autotvm.log"
    configs = [ConvConfig(8, 16, n) for n in (7, 14, 28)]
    timed = [(configs[0], 3e-3), (configs[1], 1e-3), (configs[2], 2e-3), (configs[1], 4e-3)]
    rows = [make_record(config, seconds, stamp=Stamp()) for config, seconds in timed]
    path.write_text("".join(encode_record(row) + "\n" for row in rows))
    assert import_hints(log, [path], CPU, top=2).added == 2
    assert current_history(CPU).hints(conv) == (configs[1], configs[2])


def test_what_cannot_run_here_is_left_out(log, tmp_path, make_record) -> None:
    path = tmp_path / "autotvm.log"
    conv = ConvWorkload(1, 64, 56, 56, 64, (3, 3), groups=64)
    path.write_text(encode_record(make_record(ConvConfig(1, 1, 7), workload=conv)) + "\n")
    found = import_hints(log, [path], CPU)
    assert found.added + found.unfit == 1
