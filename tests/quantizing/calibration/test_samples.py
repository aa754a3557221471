"""Calibration data from folders and archives, images included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tvm_neocpu.quantizing.calibration.errors import CalibrationDataError
from tvm_neocpu.quantizing.calibration.images import ImageOptions
from tvm_neocpu.quantizing.calibration.samples import read_samples
from tvm_neocpu.runtime.files.module_info import OPEN, TensorInfo

Image = pytest.importorskip("PIL.Image")

IMAGE = TensorInfo("data", (1, 3, 8, 8), "float32")
PLAIN = ImageOptions((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def read(source: Path, *inputs: TensorInfo, limit: int = 100) -> list[dict[str, np.ndarray]]:
    return read_samples(source, inputs, PLAIN, limit)


def numbered(count: int, *shape: int) -> np.ndarray:
    """Row n is all n."""
    column = np.arange(count, dtype="float32").reshape(-1, *[1] * len(shape))
    return np.broadcast_to(column, (count, *shape)).copy()


def test_an_archive_has_a_sample_a_row(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", data=numbered(5, 3, 8, 8))
    samples = read(tmp_path / "all.npz", IMAGE, limit=3)
    assert [sample["data"].shape for sample in samples] == [(1, 3, 8, 8)] * 3
    assert [sample["data"].flat[0] for sample in samples] == [0, 1, 2]


def test_a_fixed_batch_takes_as_many_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", data=numbered(7, 2))
    samples = read(tmp_path / "all.npz", TensorInfo("data", (3, 2), "float32"))
    assert [list(sample["data"][:, 0]) for sample in samples] == [[0, 1, 2], [3, 4, 5]]


def test_files_of_a_folder_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for n in (2, 0, 1):
        np.save(tmp_path / f"{n}.npy", np.full((3, 8, 8), n, "float32"))
    (tmp_path / "notes.txt").write_text("no data")
    samples = read(tmp_path, IMAGE)
    assert [sample["data"].flat[0] for sample in samples] == [0, 1, 2]


def test_open_sizes_may_differ(tmp_path: Path) -> None:
    wide = TensorInfo("x", (OPEN, 3, 48, OPEN), "float32")
    for width in (100, 64):
        np.save(tmp_path / f"{width}.npy", np.zeros((1, 3, 48, width), "float32"))
    assert [sample["x"].shape[3] for sample in read(tmp_path, wide)] == [100, 64]


def test_several_inputs_come_from_archives(tmp_path: Path) -> None:
    ids = TensorInfo("ids", (OPEN, 4), "int64")
    np.savez(tmp_path / "all.npz", data=numbered(2, 3, 8, 8), ids=np.ones((2, 4), "int32"))
    first, second = read(tmp_path / "all.npz", IMAGE, ids)
    assert first["ids"].dtype == np.int64 and second["data"].flat[0] == 1


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"data": numbered(2, 3, 8, 8), "ids": np.ones((3, 4), "int64")}, "different numbers"),
        ({"data": numbered(2, 3, 8, 8)}, "no array for input 'ids'"),
    ],
)
def test_inputs_that_do_not_fit_each_other(
    arrays: dict[str, np.ndarray], text: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "all.npz", **arrays)
    with pytest.raises(CalibrationDataError, match=text):
        read(tmp_path / "all.npz", IMAGE, TensorInfo("ids", (OPEN, 4), "int64"))


def test_one_array_for_two_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", numbered(1, 3, 8, 8))
    with pytest.raises(CalibrationDataError, match="the network the inputs data, ids"):
        read(tmp_path / "a.npy", IMAGE, TensorInfo("ids", (OPEN, 4), "int64"))


def test_too_few_rows_for_the_batch(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", numbered(2, 3, 8, 8))
    with pytest.raises(CalibrationDataError, match="too few samples for the fixed batch of 4"):
        read(tmp_path / "a.npy", TensorInfo("data", (4, 3, 8, 8), "float32"))


def test_an_image_is_cut_out_at_its_centre(tmp_path: Path) -> None:
    """A white square on black, twice as wide as high: the crop is 7/8 of the height around it."""
    pixels = np.zeros((32, 64, 3), "uint8")
    pixels[:, 24:40] = (255, 128, 0)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (sample,) = read(tmp_path, IMAGE)
    image = sample["data"][0]
    assert image.shape == (3, 8, 8) and image.dtype == np.float32
    np.testing.assert_allclose(image[:, 4, 4], [1.0, 128 / 255, 0.0], atol=1e-6)
    assert image[0, :, 0].max() == 0 and image[0, :, 7].max() == 0


def test_images_are_normalised_and_may_be_bgr_and_channels_last(tmp_path: Path) -> None:
    Image.fromarray(np.full((20, 20, 3), (51, 102, 255), "uint8")).save(tmp_path / "a.jpg")
    options = ImageOptions((0.0, 0.0, 0.5), (1.0, 2.0, 0.5), bgr=True)
    last = TensorInfo("data", (1, 8, 8, 3), "float32")
    (sample,) = read_samples(tmp_path, [last], options, 9)
    np.testing.assert_allclose(sample["data"][0, 4, 4], [1.0, 0.2, 0.2], atol=0.02)


def test_grey_images_for_one_channel(tmp_path: Path) -> None:
    Image.fromarray(np.full((20, 20, 3), 255, "uint8")).save(tmp_path / "a.png")
    (sample,) = read(tmp_path, TensorInfo("data", (1, 1, 8, 8), "float32"))
    assert sample["data"].shape == (1, 1, 8, 8) and sample["data"].min() == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_16_bits(channels: int, tmp_path: Path) -> None:
    """Pillow itself would clip them at 255."""
    Image.fromarray(np.full((20, 20), 32768, "uint16")).save(tmp_path / "a.png")
    (sample,) = read(tmp_path, TensorInfo("data", (1, channels, 8, 8), "float32"))
    np.testing.assert_allclose(sample["data"], 128 / 255)


def test_an_image_of_unknown_range_is_refused(tmp_path: Path) -> None:
    """Pillow reads a file by what it holds, here a TIFF of floats."""
    Image.fromarray(np.full((20, 20), 0.5, "float32")).save(tmp_path / "a.png", format="TIFF")
    with pytest.raises(CalibrationDataError, match="has pixels of mode F"):
        read(tmp_path, IMAGE)


@pytest.mark.parametrize("shape", [(1, 3, OPEN, OPEN), (1, 5, 8, 8), (1, 3, 8)])
def test_an_image_for_an_input_that_takes_none(shape: tuple[int, ...], tmp_path: Path) -> None:
    Image.fromarray(np.zeros((8, 8, 3), "uint8")).save(tmp_path / "a.png")
    with pytest.raises(CalibrationDataError, match="is an image, and input 'data'"):
        read(tmp_path, TensorInfo("data", shape, "float32"))
