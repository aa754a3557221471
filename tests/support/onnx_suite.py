"""ONNX's own backend suites: their cases, what becomes of one here, and what is expected.

Node cases have one operator or the body of one, model cases a network: those that PyTorch's
exporter wrote, simple ones, and the light networks that the `onnx` package carries. What downloads
a model is left out.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tvm_neocpu.core.errors import NeoCpuError

EXPECTED = Path(__file__).parents[1] / "onnx_suite/expected.txt"
LIGHT = "light networks"
# Of a case: it passes; it fails; it may end or stop the process, so that no test runs it.
PASS, FAIL, NEVER = "pass", "fail", "never"

Data = list[tuple[list[Any], list[Any]]]  # inputs and outputs


# Of a family with hundreds of cases, most are one operator's options in other types.
MOST_IN_CI = 12
# Operators that no CNN has, whose cases take long: the rest of them is run nightly.
FOREIGN = {
    "Attention",
    "CausalConvWithState",
    "FlexAttention",
    "LinearAttention",
    "NegativeLogLikelihoodLoss",
    "RMSNormalization",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
}
FOREIGN_IN_CI = 4


def most_in_ci(family: str) -> int:
    return FOREIGN_IN_CI if family in FOREIGN else MOST_IN_CI


@dataclass(frozen=True)
class Case:
    name: str
    family: str
    model: onnx.ModelProto
    data: Data
    rtol: float
    atol: float


@dataclass
class Family:
    """What is expected of the cases of an operator, or of a suite of models."""

    # Why the cases that fail do so; written by hand.
    reason: str = ""
    status: dict[str, str] = field(default_factory=dict)
    detail: dict[str, str] = field(default_factory=dict)

    def quick(self, most: int) -> list[str]:
        """Every second case, of large families about ``most``: what CI runs."""
        return sorted(self.status)[:: max(2, len(self.status) // most)]

    def rest(self, most: int) -> list[str]:
        """All others."""
        return sorted(set(self.status) - set(self.quick(most)))


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name. Takes seconds: the node cases are computed as they are imported."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        nodes = load_model_tests(kind="node")
    operators = {case.name: case.model.graph.node[0].op_type for case in nodes}
    found = [
        Case(
            case.name,
            operators.get(_unexpanded(case.name), operators[case.name]),
            case.model,
            case.data_sets,
            case.rtol,
            case.atol,
        )
        for case in nodes
    ]
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        found.extend(_stored(case, kind) for case in load_model_tests(kind=kind))
    found.extend(map(_light, load_model_tests(kind="real")))
    return {case.name: case for case in found}


def outcome(case: Case) -> str:
    """Why the case fails, in one line; empty where it passes."""
    from onnx.backend.test.runner import Runner

    from tvm_neocpu import onnx_backend

    try:
        rep = onnx_backend.prepare(case.model, fallback="ignore")
        for inputs, expected in case.data:
            Runner.assert_similar_outputs(
                [_array(value) for value in expected],
                list(rep.run([_array(value) for value in inputs])),
                case.rtol,
                case.atol,
            )
    except AssertionError as error:
        return f"wrong: {_line(error)}"
    except NeoCpuError as error:
        return f"refused: {_line(error)}"
    except Exception as error:  # anything else is a defect of ours
        return f"raw {type(error).__name__}: {_line(error)}"
    return ""


def read_expected(path: Path = EXPECTED) -> tuple[str, dict[str, Family]]:
    """The version of onnx that the file was written with, and the families by name."""
    version, families, family = "", {}, Family()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.startswith("onnx "):
            version = line.split()[1]
        elif line.startswith("["):
            name, _, reason = line[1:].partition("]")
            family = families.setdefault(name, Family(reason.strip()))
        elif line and not line.startswith("#"):
            status, name, *detail = line.split(maxsplit=2)
            family.status[name] = status
            family.detail[name] = " ".join(detail)
    return version, families


def write_expected(families: Mapping[str, Family], path: Path = EXPECTED) -> None:
    lines = [
        "# What becomes of ONNX's own cases, by operator: pass, fail and why, never (not run).",
        "# Written by tests/onnx_suite/regenerate.py; only the reasons behind the names of the",
        "# families are written by hand. After a merge: take both sides' lines, regenerate.",
        f"onnx {onnx.__version__}",
    ]
    for name, family in sorted(families.items()):
        lines.extend(("", f"[{name}] {family.reason}".rstrip()))
        for case, status in sorted(family.status.items()):
            detail = "" if status == PASS else family.detail.get(case, "")
            lines.append(f"{status} {case} {detail}".rstrip())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _unexpanded(name: str) -> str:
    return re.sub(r"_expanded(_\w+)?$", "", name)


def _stored(case: Any, kind: str) -> Case:
    """A case whose files the package carries."""
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = [
        (
            _protos(each, "input", model.graph.input),
            _protos(each, "output", model.graph.output),
        )
        for each in sorted(folder.glob("test_data_set*"))
    ]
    return Case(case.name, kind, model, data, case.rtol, case.atol)


def _light(case: Any) -> Case:
    """A light network: its input is made up, its output stored."""
    from onnx.backend.test.runner import Runner

    path = Path(onnx.__file__).parent / case.url.removeprefix("onnx/")
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [
        Runner.generate_dummy_data(value, name=case.model_name)
        for value in model.graph.input
        if value.name not in weights
    ]
    stored = path.with_name(f"{path.stem}_output_0.pb").read_bytes()
    outputs = [numpy_helper.to_array(onnx.TensorProto.FromString(stored))]
    return Case(case.name, LIGHT, model, [(inputs, outputs)], case.rtol, case.atol)


def _protos(folder: Path, what: str, values: Any) -> list[Any]:
    from onnx.backend.test.runner import Runner

    arrays: list[Any] = []
    for number, value in enumerate(values):
        path = folder / f"{what}_{number}.pb"
        if path.exists():
            Runner._load_proto(Runner.__new__(Runner), str(path), arrays, value.type)
    return arrays


def _array(value: Any) -> NDArray[Any]:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:150]
