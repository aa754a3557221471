"""RapidOCR (three trained CNNs of PaddleOCR in a package) on our modules, and texts to read."""

from __future__ import annotations

import random
from collections.abc import Iterable
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
    precision: str = "fp32"
    modules: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def __call__(self, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        module = self.modules.get(image.shape) or self._build(image.shape)
        module.set_input(0, image)
        module.run()
        return [module.get_output(n).numpy() for n in range(module.get_num_outputs())]

    def _build(self, shape: tuple[int, ...]) -> Any:
        mod, params = relay.frontend.from_onnx(onnx.load(self.path), {"x": shape})
        built = relay.build(mod, target="llvm", params=params, precision=self.precision)
        module = built["default"](tvm.cpu())
        self.modules[shape] = module
        return module


def reader(ours: bool, precision: str = "fp32") -> Any:
    """RapidOCR's pipeline, one line at a time so that shapes repeat; on our modules or its own."""
    engine = rapidocr.RapidOCR(rec_batch_num=1, cls_batch_num=1)
    if ours:
        engine.text_det.infer = _session(DETECT, precision)
        engine.text_cls.infer = _session(TURN, precision)
        # The recogniser asks its session for the characters at the start alone.
        engine.text_rec.session = _session(READ, precision)
    return engine


@cache
def _session(path: Path, precision: str) -> OurSession:
    """One for all tests: what one has built, the next one uses."""
    return OurSession(path, precision)


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


FONTS = (
    "DejaVuSans.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSerif-Bold.ttf",
    "DejaVuSansCondensed.ttf",
    "DejaVuSans-Bold.ttf",
    "",
)
WORDS = (
    *("convolution", "winograd", "batch", "norm", "layout", "tensor", "kernel", "vector", "cache"),
    *("memory", "schedule", "float", "integer", "scale", "range", "network", "image", "train"),
    *("model", "layer", "channel", "window", "stride", "padding", "pool", "dense", "graph", "node"),
    *("edge", "cost", "plan", "time", "power", "noise"),
)


# Pages of which an error is measured on the first, and boxes are compared on the others.
CALIBRATING, PAGES = 4, 12


def random_lines(count: int, seed: int) -> list[tuple[str, str, int]]:
    """Lines of one to three words and perhaps a number, as `page` takes them."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 3))]
        words += [str(rng.randint(0, 9999))] * rng.randint(0, 1)
        text = rng.choice((str.lower, str.upper, str.title))(" ".join(words))
        lines.append((text, rng.choice(FONTS), rng.choice((20, 24, 28, 32, 40, 48))))
    return lines


def line_image(line: tuple[str, str, int]) -> NDArray[np.uint8]:
    """An image of one line, cut out around its text as the detector's boxes are."""
    image = page([line], 60 + line[2] * len(line[0]), 2 * line[2] + 30)
    rows, columns = (np.flatnonzero((image < 128).any(axis=(axis, 2))) for axis in (1, 0))
    around = line[2] // 6
    top, left = max(rows[0] - around, 0), max(columns[0] - around, 0)
    return np.ascontiguousarray(image[top : rows[-1] + around, left : columns[-1] + around])


@dataclass
class Watched:
    """A network's session that keeps what it was asked."""

    session: Any
    seen: list[dict[str, NDArray[np.float32]]] = field(default_factory=list)

    def __call__(self, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        self.seen.append({"x": image})
        return self.session(image)


def texts_of(engine: Any, session: Any, images: Iterable[NDArray[np.uint8]]) -> list[list[str]]:
    """What the pipeline reads in images of lines, with this session as its recogniser."""
    plain, engine.text_rec.session = engine.text_rec.session, session
    try:
        found = [engine(image, use_det=False, use_cls=False)[0] for image in images]
    finally:
        engine.text_rec.session = plain
    return [[line[0] for line in lines or []] for lines in found]


def boxes_of(
    engine: Any, session: Any, pages: Iterable[NDArray[np.uint8]]
) -> list[NDArray[np.float32]]:
    """The boxes that the pipeline finds on pages, from top to bottom, by this detector."""
    plain, engine.text_det.infer = engine.text_det.infer, session
    try:
        found = [np.array(engine(image, use_cls=False, use_rec=False)[0]) for image in pages]
    finally:
        engine.text_det.infer = plain
    return [each[np.argsort(each[:, 0, 1], kind="stable")] for each in found]


def lines_to_read() -> list[NDArray[np.uint8]]:
    """A hundred strings in seven fonts and six sizes."""
    return [line_image(line) for line in random_lines(100, 2)]


def pages_to_search() -> tuple[list[dict[str, NDArray[np.float32]]], list[NDArray[np.uint8]]]:
    """What the detector is asked for pages of five lines, cut to one shape; and other pages."""
    pages = [page(random_lines(5, seed), 640, 480) for seed in range(100, 100 + PAGES)]
    whole = page_samples(reader(ours=False), pages[:CALIBRATING])
    cut = [{"x": np.ascontiguousarray(each["x"][:, :, :384, :512])} for each in whole]
    return cut, pages[CALIBRATING:]


def without_blanks(texts: list[list[str]]) -> list[list[str]]:
    return [[text.replace(" ", "") for text in lines] for lines in texts]


def line_samples(
    engine: Any, width: int | None = None, count: int = 16
) -> list[dict[str, NDArray[np.float32]]]:
    """What the recogniser is asked for rendered lines; ``width`` makes them one shape."""
    watched = Watched(engine.text_rec.session)
    texts_of(engine, watched, [line_image(line) for line in random_lines(count, 1)])
    if width is None:
        return watched.seen
    return [{"x": of_width(each["x"], width)} for each in watched.seen]


def page_samples(
    engine: Any, pages: Iterable[NDArray[np.uint8]]
) -> list[dict[str, NDArray[np.float32]]]:
    """What the detector is asked for pages."""
    watched = Watched(engine.text_det.infer)
    boxes_of(engine, watched, pages)
    return watched.seen


def of_width(image: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Filled up by zeros, as the pipeline fills lines up, or cut."""
    missing = max(0, width - image.shape[-1])
    return np.ascontiguousarray(np.pad(image, [(0, 0)] * 3 + [(0, missing)])[..., :width])
