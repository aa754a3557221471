"""Headers of binaries: what is read off real and hand-made ones, cut at every byte."""

from __future__ import annotations

import errno
import io
import os
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import onnx
import pytest

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.files import binary
from tvm_neocpu.runtime.files.binary import (
    TVM_DATA,
    Binary,
    check_library,
    check_object,
    is_library,
    read_binary,
)
from tvm_neocpu.runtime.process import host as host_cpu

HERE = host_cpu.arch_of(host_cpu.triple())
ELF_MACHINE = {"x86_64": 62, "aarch64": 183}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the libraries are ELF files")


def elf(machine: int, names: bytes = b"\0" + TVM_DATA.encode() + b"\0", bits: int = 2) -> bytes:
    """A header, one segment, names, three sections: nothing, dynamic symbols, their names."""
    names_at = 64 + 56
    sections_at = names_at + len(names)
    ident = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, 3, machine, 1, 0, 64, sections_at, 0, 64, 56, 1, 64, 3, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, sections_at, sections_at, 4096)
    symbols = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, names_at, 0, 2, 0, 8, 24)
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    return header + segment + names + bytes(64) + symbols + strings


def macho(cpu: int) -> bytes:
    """A header, a segment of 8 bytes, a symbol table of none; names of 4 bytes."""
    data_at = 32 + 72 + 24
    header = struct.pack("<IIIIIIII", 0xFEEDFACF, cpu, 0, 6, 2, 72 + 24, 0, 0)
    segment = struct.pack("<II16sQQQQIIII", 0x19, 72, b"__TEXT", 0, 8, data_at, 8, 0, 0, 0, 0)
    symbols = struct.pack("<IIIIII", 2, 24, data_at + 8, 0, data_at + 8, 4)
    return header + segment + symbols + b"contents" + b"\0_x\0"


def pe(machine: int) -> bytes:
    """A DOS stub, a header, one section of 8 bytes."""
    section_at = 64 + 24
    stub = b"MZ" + bytes(58) + struct.pack("<I", 64)
    header = struct.pack("<4sHHIIIHH", b"PE\0\0", machine, 1, 0, 0, 0, 0, 0)
    section = struct.pack("<8sIIIIIIHHI", b".text", 8, 0, 8, section_at + 40, 0, 0, 0, 0, 0)
    return stub + header + section + b"contents"


@pytest.mark.parametrize(
    ("content", "form", "arch"),
    [
        (elf(62), "ELF", "x86_64"),
        (elf(183), "ELF", "aarch64"),
        (elf(243), "ELF", "ELF machine 243"),
        (macho(0x01000007), "Mach-O", "x86_64"),
        (macho(0x0100000C), "Mach-O", "aarch64"),
        (macho(18), "Mach-O", "Mach-O CPU type 0x12"),
        (pe(0x8664), "PE", "x86_64"),
        (pe(0xAA64), "PE", "aarch64"),
        (pe(0x14C), "PE", "PE machine 0x14c"),
    ],
)
def test_headers_are_read_and_every_cut_is_found(content: bytes, form: str, arch: str) -> None:
    found = read_binary(io.BytesIO(content))
    assert found is not None
    assert (found.format, found.arch) == (form, arch)
    assert found.size <= len(content)
    for cut in range(4, len(content)):
        try:
            found = read_binary(io.BytesIO(content[:cut]))
        except EOFError:
            continue
        assert found is not None
        assert found.size > cut


@pytest.mark.parametrize("content", [b"", b"\x7fE", b"text", b"MZ" + bytes(100), b"\0" * 5000])
def test_what_is_no_binary(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    check_object(path, path)  # the linker will know
    with pytest.raises(ModuleFileError, match=r"x\.so: it is not a shared library"):
        check_library(path, path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names there")
def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "net.onnx"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDWR)
    try:
        os.write(handle, b"\x7fELF")
        assert not is_library(pipe)
    finally:
        os.close(handle)


def test_a_32_bit_library_is_for_another_cpu() -> None:
    found = read_binary(io.BytesIO(elf(62, bits=1)))
    assert found == Binary("ELF", "a 32-bit or big-endian CPU", 0)


def test_numbers_without_sense_end() -> None:
    endless = bytearray(macho(0x01000007))
    endless[36:40] = bytes(4)  # the first command is 0 bytes long
    with pytest.raises(EOFError):
        read_binary(io.BytesIO(bytes(endless)))
    far = bytearray(elf(62))
    far[40:48] = b"\xff" * 8  # where the sections are
    with pytest.raises(EOFError):
        read_binary(io.BytesIO(bytes(far)))


@on_linux
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (elf(ELF_MACHINE[HERE])[:-1], "truncated"),
        (elf(243), f"has code for ELF machine 243, and this machine is {HERE}"),
        (elf(ELF_MACHINE[HERE], b"\0memcpy\0"), "not exported by tvm_neocpu"),
        (macho({"x86_64": 0x01000007, "aarch64": 0x0100000C}[HERE]), "in Mach-O format, not ELF"),
    ],
)
def test_libraries_that_are_refused(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    with pytest.raises(ModuleFileError) as caught:
        check_library(path, tmp_path / "shown.so")
    assert words in str(caught.value)
    assert "shown.so" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_may_not_be_read_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads everything, so that a mode alone would not do."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(binary, "open", refuse, raising=False)
    for check in (check_library, check_object):
        with pytest.raises(ModuleFileError, match=r"cannot load net\.so: Permission denied"):
            check(tmp_path / "x.so", Path("net.so"))


@on_linux
@pytest.mark.compiler
def test_a_library_is_whole_stripped_or_not(lib: BuiltModule, tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    lib.export_library(path)
    check_library(path, path)
    if shutil.which("strip"):
        subprocess.run(["strip", str(path)], check=True)
        check_library(path, path)


@pytest.mark.parametrize(
    ("triple", "form", "arch"),
    [
        ("x86_64-linux-gnu", "ELF", "x86_64"),
        ("aarch64-linux-gnu", "ELF", "aarch64"),
        ("aarch64-apple-macos", "Mach-O", "aarch64"),
    ],
)
def test_objects_that_llvm_writes(
    triple: str, form: str, arch: str, tiny_cnn: onnx.ModelProto, tmp_path: Path
) -> None:
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    path = tmp_path / "net.tar"
    relay.build(mod, target=f"llvm -mtriple={triple}").export_library(path)
    with tarfile.open(path) as archive:
        objects = [item for item in archive if item.name.endswith(".o")]
        assert objects
        for item in objects:
            file = archive.extractfile(item)
            assert file is not None
            found = read_binary(file)
            assert found is not None
            assert (found.format, found.arch) == (form, arch)
            assert found.size <= item.size
