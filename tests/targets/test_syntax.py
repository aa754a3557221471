"""Classic target text as TVM's dictionary."""

from __future__ import annotations

import pytest

from tvm_neocpu.targets.syntax import parse_text

OPTIONS = {"mcpu": "str", "mattr": "Array<str>", "num-cores": "int", "fast-math": "bool"}


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("llvm", {}),
        ("llvm -mcpu=znver4", {"mcpu": "znver4"}),
        ("llvm --mcpu=znver4", {"mcpu": "znver4"}),
        ("llvm -mcpu znver4 -num-cores=8", {"mcpu": "znver4", "num-cores": 8}),
        ("llvm -mattr=+fma,-avx512f", {"mattr": ["+fma", "-avx512f"]}),
        ("llvm -fast-math -mcpu=a", {"fast-math": True, "mcpu": "a"}),
        ("llvm -fast-math=0", {"fast-math": False}),
    ],
)
def test_classic_text(text: str, config: dict[str, object]) -> None:
    assert parse_text(text, OPTIONS) == {"kind": "llvm", **config}
