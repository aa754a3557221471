"""Readings of a real machine: an AMD EPYC Milan (Zen 3), two cores of a virtual machine.

ResNet-50 on one thread and MobileNet-v2 on two, each layer timed inside its network.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tvm_neocpu.contrib.cost_model.readings import Readings, readings_of
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.targets.families import with_family
from tvm_neocpu.tuning.database.log import load_log

ASSET = Path(__file__).parent / "assets" / "epyc_milan_znver3.log.xz"
CPU = with_family(Cpu("znver3", AVX2, 2))


@pytest.fixture(scope="session")
def milan_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("milan") / "milan.log"
    path.write_bytes(lzma.decompress(ASSET.read_bytes()))
    return path


@pytest.fixture(scope="session")
def milan(milan_log: Path) -> Readings:
    return readings_of(load_log(milan_log).records, CPU)
