"""`tune --tracker`: what is refused, in one line each, before anything is built."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from tvm.rpc import base
from tvm.target import Target

from tvm_neocpu.commands import tune
from tvm_neocpu.commands.parts.tune_fleet import check_target
from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.fleet import linker
from tvm_neocpu.tuning.fleet.tracker import Fleet

TARGET = "llvm -mcpu=znver3"
HOST = "127.0.0.1"


@contextmanager
def tracker(answers: Mapping[str, object] | bytes) -> Iterator[str]:
    """A listener that answers as a tracker does, or with these bytes; its address."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    _answer(connection, answers)

        threading.Thread(target=serve, daemon=True).start()
        yield f"{HOST}:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _answer(connection: socket.socket, answers: Mapping[str, object] | bytes) -> None:
    magic = base.recvall(connection, 4)
    if isinstance(answers, bytes):
        connection.sendall(answers)
        return
    connection.sendall(magic)
    (size,) = struct.unpack("<i", base.recvall(connection, 4))
    base.recvall(connection, size)
    text = json.dumps([base.TrackerCode.SUCCESS, answers]).encode()
    connection.sendall(struct.pack("<i", len(text)) + text)


def refused(capsys, *options: str) -> str:
    """The one line of an error."""
    assert tune.main(["lenet", *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("error: ")
    return err


@pytest.mark.parametrize("address", ["here", "host:", ":9190", "host:port", "host:0", "h:99999"])
def test_a_malformed_address(capsys, address):
    line = refused(capsys, "--tracker", address, "--key", "k", "--target", TARGET)
    assert "--tracker is HOST:PORT" in line and repr(address) in line


def test_a_tracker_that_does_not_answer(capsys):
    with socket.create_server((HOST, 0)) as probe:
        address = f"{HOST}:{probe.getsockname()[1]}"
    line = refused(capsys, "--tracker", address, "--key", "k", "--target", TARGET)
    assert f"no tracker answers at {address}" in line


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n", b""])
def test_something_else_that_answers(capsys, answer):
    with tracker(answer) as address:
        line = refused(capsys, "--tracker", address, "--key", "k", "--target", TARGET)
    assert "tracker" in line and address in line


def test_a_key_that_nobody_serves(capsys):
    known = {"server_info": [{"key": "server:rpi", "addr": [HOST, 1]}], "queue_info": {}}
    with tracker(known) as address:
        line = refused(capsys, "--tracker", address, "--key", "k", "--target", TARGET)
    assert "nobody serves k" in line and "rpi" in line


def test_options_that_belong_together(capsys):
    assert "belong together" in refused(capsys, "--key", "k")
    assert "belong together" in refused(capsys, "--tracker", "h:1")
    assert "-mcpu=NAME" in refused(capsys, "--tracker", "h:1", "--key", "k")


def test_code_that_cannot_be_linked_here(monkeypatch):
    monkeypatch.setattr(linker, "cross_compiler", lambda _: None)
    target = Target({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})
    with pytest.raises(TargetError, match=r"there is no riscv64-linux-gnu-g\+\+; install it"):
        linker.find_linker(target)


def test_a_system_without_our_clock():
    with pytest.raises(TargetError, match="needs 64-bit Linux"):
        linker.find_linker(Target({"kind": "llvm", "mtriple": "x86_64-apple-darwin"}))


class Served(Fleet):
    """Answers without a server."""

    def system(self) -> tuple[str, str]:
        return {
            "zen4": ("x86_64-conda-linux-gnu", "znver4"),
            "arm": ("aarch64-linux", "neoverse-n1"),
        }[self.key]


def check_served(key: str, cpu: str) -> None:
    target = parse_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    check_target(Served("127.0.0.1", 9190, key), target)


@pytest.mark.parametrize("cpu", ["znver4", "znver3", "haswell", "skylake-avx512", "x86-64-v3"])
def test_what_says_how_code_is_fast_is_no_instruction(cpu: str) -> None:
    check_served("zen4", cpu)


@pytest.mark.parametrize(
    ("key", "cpu", "told"),
    [
        ("zen4", "sapphirerapids", "is a znver4 .*: it has no amx-bf16, amx-int8, amx-tile"),
        ("zen4", "alderlake", "is a znver4 .*: it has no avxvnni$"),
        ("arm", "znver4", "is a neoverse-n1 .*: it executes no code for x86_64$"),
    ],
)
def test_what_its_cpu_lacks(key: str, cpu: str, told: str) -> None:
    with pytest.raises(TargetError, match=told):
        check_served(key, cpu)
