"""RapidOCR (three trained CNNs of PaddleOCR in a package) on our modules, and texts to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from numpy.typing import NDArray

from tvm_neocpu import relay

rapidocr = pytest.importorskip("rapidocr_onnxruntime")
Image = pytest.importorskip("PIL.Image")
ImageDraw = pytest.importorskip("PIL.ImageDraw")
ImageFont = pytest.importorskip("PIL.ImageFont")

MODELS = Path(rapidocr.__file__).parent / "models"
DETECT, TURN, READ = (
    MODELS / f"{name}_infer.onnx"
    for name in ("ch_PP-OCRv4_det", "ch_ppocr_mobile_v2.0_cls", "ch_PP-OCRv4_rec")
)


@dataclass
class OurSession:
    """What RapidOCR calls instead of ONNX Runtime: one build for each shape that it asks for."""

    path: Path
    modules: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def __call__(self, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        module = self.modules.get(image.shape) or self._build(image.shape)
        module.set_input(0, image)
        module.run()
        return [module.get_output(n).numpy() for n in range(module.get_num_outputs())]

    def _build(self, shape: tuple[int, ...]) -> Any:
        mod, params = relay.frontend.from_onnx(onnx.load(self.path), {"x": shape})
        module = relay.build(mod, target="llvm", params=params)["default"](tvm.cpu())
        self.modules[shape] = module
        return module


def reader(ours: bool) -> Any:
    """RapidOCR's pipeline, one line at a time so that shapes repeat; on our modules or its own."""
    engine = rapidocr.RapidOCR(rec_batch_num=1, cls_batch_num=1)
    if ours:
        engine.text_det.infer = _session(DETECT)
        engine.text_cls.infer = _session(TURN)
        # The recogniser asks its session for the characters at the start alone.
        engine.text_rec.session = _session(READ)
    return engine


@cache
def _session(path: Path) -> OurSession:
    """One for all tests: what one has built, the next one uses."""
    return OurSession(path)


def font(name: str, size: int) -> Any:
    """A font of the system, or Pillow's own where it has none of that name."""
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return ImageFont.load_default(size)


def page(lines: list[tuple[str, str, int]], width: int, height: int) -> NDArray[np.uint8]:
    """Black lines of text on white, one below the other: (text, font's name, size in pixels)."""
    image = Image.new("RGB", (width, height), "white")
    draw, top = ImageDraw.Draw(image), 20
    for text, name, size in lines:
        draw.text((30, top), text, fill="black", font=font(name, size))
        top += 2 * size
    return np.asarray(image)
