"""Which targets a server's CPU can execute."""

from __future__ import annotations

import pytest

from tvm_neocpu.commands.parts.tune_fleet import check_target
from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.fleet.tracker import Fleet


class Served(Fleet):
    """Answers without a server."""

    def system(self) -> tuple[str, str]:
        return {"zen4": ("x86_64-conda-linux-gnu", "znver4"), "arm": ("aarch64-linux", "a64fx")}[
            self.key
        ]


def check(key: str, cpu: str) -> None:
    target = parse_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    check_target(Served("127.0.0.1", 9190, key), target)


@pytest.mark.parametrize("cpu", ["znver4", "znver3", "haswell", "skylake-avx512", "x86-64-v3"])
def test_what_says_how_code_is_fast_is_no_instruction(cpu: str) -> None:
    check("zen4", cpu)


@pytest.mark.parametrize(
    ("key", "cpu", "told"),
    [
        ("zen4", "sapphirerapids", "is a znver4 .*: it has no amx-bf16, amx-int8, amx-tile"),
        ("zen4", "alderlake", "is a znver4 .*: it has no avxvnni$"),
        ("arm", "znver4", "is a a64fx .*: it executes no code for x86_64$"),
    ],
)
def test_what_its_cpu_lacks(key: str, cpu: str, told: str) -> None:
    with pytest.raises(TargetError, match=told):
        check(key, cpu)
