"""What RapidOCR's pipeline reads and finds in lower precision: texts and boxes beside fp32's.

    python benchmarks/networks/ocr_precision.py -o benchmarks/results/ocr_precision_zen4.json
    python benchmarks/networks/ocr_precision.py --texts auto:0.01 auto:0.02 --boxes auto -o FILE

A hundred rendered lines at the widths that the pipeline gives them, and eight pages. The layers are
chosen for this CPU; ONNX Runtime computes what was chosen in exact arithmetic, so that lines of any
width need no build of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from ocr import (
    DETECT,
    READ,
    boxes_of,
    line_samples,
    lines_to_read,
    pages_to_search,
    reader,
    texts_of,
    without_blanks,
)

from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.accuracy.precision import request_of
from tvm_neocpu.precision.choose import Chosen, choose_precision
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import current_history

# Precision and bound: without one the default is meant, which for int8 is none.
READING = ("bf16", "auto", "auto:0.02", "int8", "int8:0.035")
FINDING = ("bf16", "auto", "int8", "int8:0.05")

Session = Callable[[NDArray[np.float32]], list[NDArray[np.float32]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="llvm -num-cores=1")
    parser.add_argument("--texts", nargs="*", default=READING, metavar="P[:E]")
    parser.add_argument("--boxes", nargs="*", default=FINDING, metavar="P[:E]")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    cpu = parse_target(options.target).cpu
    rows: list[dict[str, Any]] = []
    for name, rows_of in (("texts", _texts), ("boxes", _boxes)):
        for row in rows_of(cpu, getattr(options, name)):
            print(name, row, flush=True)
            rows.append({"asked": name, **row})
            report = {**provenance(cpu.name, cpu.cores), "rows": rows}
            options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _texts(cpu: Any, asked: Sequence[str]) -> Any:
    engine = reader(ours=False)
    samples = line_samples(engine, 320)  # a build takes one shape
    images = lines_to_read()
    wanted = texts_of(engine, engine.text_rec.session, images)
    for each in asked:
        chosen = _chosen(READ, samples, each, cpu)
        found = texts_of(engine, _session(chosen), images)
        same = _equal(wanted, found)
        blanks = _equal(without_blanks(wanted), without_blanks(found))
        yield {**_about(chosen), "lines": len(images), "same": same, "same_but_blanks": blanks}


def _boxes(cpu: Any, asked: Sequence[str]) -> Any:
    engine = reader(ours=False)
    samples, rest = pages_to_search()
    wanted = boxes_of(engine, engine.text_det.infer, rest)
    for each in asked:
        chosen = _chosen(DETECT, samples, each, cpu)
        found = boxes_of(engine, _session(chosen), rest)
        apart = [_apart(a, b) for a, b in zip(wanted, found, strict=True)]
        within = sum(pixels is not None and pixels <= 2 for pixels in apart)
        yield {**_about(chosen), "pages": len(apart), "within_2_pixels": within, "apart": apart}


def _chosen(path: Path, samples: Any, asked: str, cpu: Any) -> Chosen:
    precision, _, bound = asked.partition(":")
    request = request_of(precision, float(bound) if bound else None, samples)
    assert request is not None
    shapes = {"x": samples[0]["x"].shape}
    return choose_precision(onnx.load(path), shapes, request, cpu, current_history(cpu), path.stem)


def _session(chosen: Chosen) -> Session:
    run = runner(chosen.exact)
    return lambda image: run({"x": image})


def _about(chosen: Chosen) -> dict[str, Any]:
    report = chosen.report
    shares = {name: round(report.share_of(name), 4) for name in ("int8", "bf16", "fp16")}
    return {
        "precision": report.precision,
        "max_error": report.max_error,
        "measured_error": report.measured,
        "predicted_ms": {"fp32": report.fp32 * 1e3, "chosen": report.chosen * 1e3},
        "shares": shares,
    }


def _equal(wanted: list[list[str]], found: list[list[str]]) -> int:
    return sum(a == b for a, b in zip(wanted, found, strict=True))


def _apart(one: NDArray[np.float32], other: NDArray[np.float32]) -> float | None:
    """The largest distance of two corners; ``None`` for another number of boxes."""
    return float(np.abs(one - other).max()) if one.shape == other.shape else None


if __name__ == "__main__":
    main()
