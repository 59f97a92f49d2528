"""Readers of pictures: every form in which a set may lie on disk gives the same pictures, and mistakes are named."""

import gzip
import os
import struct
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_data import bars, write_npz
from ndp.core.io.images import ImageError, is_grey, read_image_set, read_picture
from ndp.priors.image import read_set, read_training_set

GREY = bars(7)[..., 0]


def idx(pictures: np.ndarray) -> bytes:
    return np.array([0x0803, *pictures.shape], dtype=">i4").tobytes() + pictures.tobytes()


@pytest.mark.parametrize(
    "name", ["train-images-idx3-ubyte.gz", "train-images-idx3-ubyte", "train-images.idx3-ubyte", "digits.npz"]
)
def test_the_files_of_mnist_and_npz_hold_the_same(tmp_path: Path, name: str) -> None:
    if name.endswith("npz"):
        np.savez(tmp_path / name, x_train=GREY, x_test=GREY[:2])
    else:
        data = idx(GREY)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"none of our business")
    found = read_image_set(str(tmp_path), "train", 28, 1)
    np.testing.assert_array_equal(found[..., 0], GREY)


def test_a_folder_of_pictures_is_cut_to_squares_and_its_last_tenth_is_for_tests(tmp_path: Path) -> None:
    for index in range(20):
        picture = np.full((64 + 20, 64, 3), index, dtype=np.uint8)
        picture[:10] = picture[-10:] = 255  # above and below the square in the middle
        Image.fromarray(picture).save(tmp_path / f"face{index:03}.png")
    (tmp_path / "list.txt").write_text("not a picture")
    train, test = (read_image_set(str(tmp_path), part, 32, 3) for part in ("train", "test"))
    assert train.shape == (18, 32, 32, 3)
    np.testing.assert_array_equal(train[:, 0, 0, 0], np.arange(18))
    np.testing.assert_array_equal(np.unique(test), [18, 19])
    (tmp_path / "parts" / "train").mkdir(parents=True)
    (tmp_path / "parts" / "test").mkdir()
    for part, value in (("train", 50), ("test", 60)):
        Image.fromarray(np.full((9, 9), value, dtype=np.uint8)).save(tmp_path / "parts" / part / "one.png")
        assert (read_image_set(str(tmp_path / "parts"), part, 32, 3) == value).all()


def test_a_set_of_the_hub_is_read_where_the_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImageError, match=r"pip install 'neural-diffusion-processes\[datasets\]'"):
        read_image_set("somebody/digits", "train", 28, 1)

    class Rows(list):
        features = {"label": object(), "image": type("Image", (), {})()}  # noqa: RUF012

    def load_dataset(name: str, split: str) -> Rows:
        if name != "somebody/digits":
            raise RuntimeError("offline")
        return Rows({"label": 1, "image": Image.fromarray(one)} for one in GREY[: 5 if split == "train" else 2])

    fake = types.ModuleType("datasets")
    fake.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    np.testing.assert_array_equal(read_image_set("somebody/digits", "train", 28, 1)[..., 0], GREY[:5])
    with pytest.raises(ImageError, match="the hub has no set somebody/else with a part test, or cannot be reached"):
        read_image_set("somebody/else", "test", 28, 1)


def test_what_is_wrong_is_told_with_where_to_get_it(tmp_path: Path) -> None:
    for where, message in (
        ("", r"mnist needs its pictures: --data-dir FOLDER with the four files of MNIST"),
        ("./nowhere", "there is no folder and no file ./nowhere. mnist is the four files"),
        (str(tmp_path), "holds neither MNIST's files .* nor pictures"),
    ):
        with pytest.raises(ValueError, match=message):
            read_set("mnist", where, "train")
    colour = write_npz(tmp_path / "colour", size=32, channels=3)
    with pytest.raises(ValueError, match=r"pictures of shape \[32, 32, 3\], where .* \[28, 28, 1\] are needed"):
        read_set("mnist", str(colour), "train")
    np.savez(tmp_path / "colour" / "bars.npz", other=GREY)
    with pytest.raises(ValueError, match="has no array test; its arrays are: other"):
        read_set("celeba32", str(colour), "test")
    (tmp_path / "colour" / "bars.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match="is not an NPZ file"):
        read_set("celeba32", str(colour), "test")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(GREY)[:-1])
    with pytest.raises(ValueError, match="is not a whole IDX file"):
        read_set("mnist", str(tmp_path), "train")
    (tmp_path / "train-images-idx3-ubyte").rename(tmp_path / "train-images-idx3-ubyte.gz")
    with pytest.raises(ValueError, match="is damaged"):
        read_set("mnist", str(tmp_path), "train")


def test_one_picture(tmp_path: Path) -> None:
    Image.fromarray(np.full((10, 30, 3), (255, 0, 51), dtype=np.uint8)).save(tmp_path / "red.png")
    picture = read_picture(tmp_path / "red.png", size=4, channels=3)
    np.testing.assert_allclose(picture, np.broadcast_to([1.0, 0.0, 0.2], (4, 4, 3)))
    assert read_picture(tmp_path / "red.png", size=4, channels=1).shape == (4, 4, 1)
    assert not is_grey(tmp_path / "red.png")
    Image.fromarray(GREY[0]).save(tmp_path / "grey.png")
    assert is_grey(tmp_path / "grey.png")
    (tmp_path / "text.png").write_text("no")
    for name, message in (("text.png", "is not a picture"), ("none.png", "there is no file")):
        with pytest.raises(ImageError, match=message):
            is_grey(tmp_path / name)


@pytest.mark.skipif("NDP_IMAGE_DATA" not in os.environ, reason="NDP_IMAGE_DATA names no folder with mnist and celeba32")
@pytest.mark.parametrize(("name", "least", "mean"), [("mnist", 59_000, 0.1307), ("celeba32", 9_000, 0.43)])
def test_the_real_sets(name: str, least: int, mean: float) -> None:
    folder = str(Path(os.environ["NDP_IMAGE_DATA"]) / name)
    train, held_out = read_training_set(name, folder)
    assert len(train) >= least
    assert len(held_out) == 1000
    assert (train.float().mean() / 255).item() == pytest.approx(mean, abs=0.01)
    assert len(read_set(name, folder, "test")) >= 1000


def png(width: int, height: int) -> bytes:
    """A PNG that says it is so large, and holds nothing."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [10_000, 100_000, 2**31 - 1])
def test_a_picture_of_too_many_pixels_is_refused_before_they_are_made(tmp_path: Path, side: int) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png(side, side))
    for read in (is_grey, lambda one: read_picture(one, size=28, channels=1)):
        with pytest.raises(ImageError, match=r"bomb.png has more than 89,478,485 pixels; make it smaller first"):
            read(path)


def test_sets_that_claim_more_than_a_machine_holds_are_refused(tmp_path: Path) -> None:
    header = np.array([0x0803, 2**30, 28, 28], dtype=">i4").tobytes()
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(header))
    with pytest.raises(ImageError, match=r"says that it holds 8.42e\+11 bytes, and 4.29e\+09 are the most"):
        read_image_set(str(tmp_path), "train", 28, 1)
    path = tmp_path / "digits.npz"
    np.savez(path, train=GREY)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(7, 28, 28)", b"(7, 2**99)"))
    with pytest.raises(ImageError, match=r"digits.npz is not an NPZ file of arrays"):
        read_image_set(str(path), "train", 28, 1)
