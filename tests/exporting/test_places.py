"""Names that a library may be written to, on the system that it is for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.exporting.write_module import INSIDE, check_place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the names of other systems")


@pytest.mark.parametrize("name", ["net.dll", "net.dylib"])
def test_another_systems_name_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ModuleFileError, match=r"here it ends in \.so; CXX names a linker for"):
        check_place(tmp_path / name, INSIDE)


def test_a_linker_of_the_users_may_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_place(tmp_path / "net.dll", INSIDE, print)
    monkeypatch.setenv("CXX", "x86_64-w64-mingw32-g++")
    check_place(tmp_path / "net.dll", INSIDE)
