"""Image files as networks trained on ImageNet expect them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.errors import MissingPackageError, first_line
from tvm_neocpu.quantizing.calibration.errors import CalibrationDataError
from tvm_neocpu.runtime.files.module_info import OPEN, TensorInfo

if TYPE_CHECKING:
    from PIL import Image

# The shorter side before the crop, over the crop's: 256 for 224.
RESIZE = 256 / 224
_CHANNELS = {1: "L", 3: "RGB"}
# Pillow's modes of more than 8 bits.
_WIDE = frozenset(["F", "I", "I;16", "I;16B", "I;16L", "I;16N"])


@dataclass(frozen=True)
class ImageOptions:
    """Pixels are divided by 255, then (pixel - mean) / std for each channel (R, G, B)."""

    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    bgr: bool = False


def read_image(path: Path, info: TensorInfo, options: ImageOptions) -> NDArray[np.float32]:
    """The image for an input (N, C, H, W) or (N, H, W, C): (C, H, W) or (H, W, C).

    The shorter side becomes 256/224 of the input's (bilinear), then the centre is cut out.
    Raises CalibrationDataError, MissingPackageError without Pillow.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError(
            "reading images needs Pillow: pip install 'tvm-neocpu[quantize]'"
        ) from error
    channels, height, width, last = _extents(info, path)
    try:
        with Image.open(path) as opened:
            image = _of_bytes(opened, path).convert(_CHANNELS[channels])
    except CalibrationDataError:
        raise
    except Exception as error:  # Pillow's decoders have exceptions of their own
        raise CalibrationDataError(f"cannot read the image {path}: {first_line(error)}") from error
    factor = max(height / image.height, width / image.width) * RESIZE
    size = (max(round(image.width * factor), width), max(round(image.height * factor), height))
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    pixels = np.asarray(image.crop((left, top, left + width, top + height)), np.float32)
    pixels = pixels.reshape(height, width, channels) / np.float32(255)
    mean, std = (np.float32(each[:channels]) for each in (options.mean, options.std))
    normal = (pixels - mean) / std
    if options.bgr:
        normal = normal[:, :, ::-1]
    return np.ascontiguousarray(normal if last else normal.transpose(2, 0, 1))


def _of_bytes(image: Image.Image, path: Path) -> Image.Image:
    """The image with 8 bits a pixel: Pillow itself would clip one of 16 bits at 255.

    Raises CalibrationDataError for pixels that have no range, floats and whole numbers of 32 bits.
    """
    from PIL import Image

    if image.mode not in _WIDE:
        return image
    pixels = np.asarray(image)
    largest = np.iinfo("uint16").max
    if image.mode == "F" or pixels.min() < 0 or pixels.max() > largest:
        raise CalibrationDataError(
            f"the image {path} has pixels of mode {image.mode}, whose range is not known; convert "
            "it to 8 or 16 bits, or give arrays (.npz)"
        )
    return Image.fromarray(np.rint(pixels * (255 / largest)).astype("uint8"))


def _extents(info: TensorInfo, path: Path) -> tuple[int, int, int, bool]:
    """Channels, height, width, and whether channels are last."""
    if len(info.shape) == 4:
        _, first, second, third = info.shape
        for channels, height, width, last in (
            (first, second, third, False),
            (third, first, second, True),
        ):
            if channels in _CHANNELS and OPEN not in (height, width):
                return channels, height, width, last
    raise CalibrationDataError(
        f"{path} is an image, and input {info.name!r} of {info.shape_text} takes none; an open "
        f"size is given by --shape"
    )
