"""Sets of pictures on disk: the standard MNIST files, NPZ, a folder of pictures, or a set of Hugging Face `datasets`.

Pictures are whole numbers of 8 bits, [T, H, W, P], with P = 1 (grey) or 3 (colour).
"""

import gzip
import math
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

Part = Literal["train", "test"]
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp")
MOST_BYTES = 2**32  # of an array of pictures: all of CelebA at 80 x 80 in colour
_DAMAGED_NPZ = (KeyError, NotImplementedError, RuntimeError, MemoryError, EOFError, SyntaxError, struct.error)
_IDX = {"train": "train-images", "test": "t10k-images"}


class ImageError(ValueError):
    """Pictures that are not there, or not what they should be."""


@lru_cache(maxsize=4)
def read_image_set(where: str, part: Part, size: int, channels: int) -> np.ndarray:
    """Pictures of a set, cut to squares and brought to size x size: [T, size, size, channels].

    `where` is a folder, an NPZ file, or the name of a set on the Hugging Face hub. Arrays must have the size already.
    """
    path = Path(where).expanduser()
    if path.is_dir():
        found = _read_folder(path, part, size, channels)
    elif path.is_file():
        found = _read_npz(path, part)
    elif re.fullmatch(r"[\w.-]+/[\w.-]+", where) and not where.startswith("."):
        found = _read_hub(where, part, size, channels)
    else:
        raise ImageError(f"there is no folder and no file {where}")
    if found.ndim == 3:
        found = found[..., None]
    if found.dtype != np.uint8 or found.ndim != 4 or found.shape[1:] != (size, size, channels):
        raise ImageError(
            f"{where} holds {found.dtype} pictures of shape {list(found.shape[1:])}, where whole numbers from 0 to 255 "
            f"(uint8) of shape {[size, size, channels]} are needed"
        )
    if not len(found):
        raise ImageError(f"{where} holds no pictures to {part} with")
    found.flags.writeable = False  # what is cached is shared
    return found


def read_picture(path: Path, *, size: int, channels: int) -> np.ndarray:
    """One picture of any format that Pillow knows, cut to a square: [size, size, channels], values from 0 to 1."""
    with _open(path) as picture:
        return np.atleast_3d(_square(picture, size, channels) / 255)


def is_grey(path: Path) -> bool:
    """Whether a picture holds no colours."""
    with _open(path) as picture:
        colours = np.asarray(picture.convert("RGB"))
    return bool((colours == colours[..., :1]).all())


def _read_folder(folder: Path, part: Part, size: int, channels: int) -> np.ndarray:
    names = sorted(path.name for path in folder.iterdir())
    for name in names:
        if name.replace(".idx3", "-idx3").startswith(f"{_IDX[part]}-idx3-ubyte"):
            return _read_idx(folder / name)
    archives = [name for name in names if name.endswith(".npz")]
    if len(archives) == 1:
        return _read_npz(folder / archives[0], part)
    own = folder / part
    pictures = sorted(path for path in (own if own.is_dir() else folder).iterdir() if path.suffix.lower() in ENDINGS)
    if not pictures:
        raise ImageError(
            f"{folder} holds neither MNIST's files ({_IDX[part]}-idx3-ubyte, .gz or not), nor one NPZ file with arrays "
            f"train and test, nor pictures ({', '.join(ENDINGS)})"
        )
    if not own.is_dir():  # the last tenth by name is kept for tests
        cut = len(pictures) - max(len(pictures) // 10, 1)
        pictures = pictures[:cut] if part == "train" else pictures[cut:]
    return _stack(map(_open, pictures), size, channels)


def _read_idx(path: Path) -> np.ndarray:
    """The format of MNIST: a magic number, three sizes, and bytes."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            header = np.frombuffer(file.read(16), dtype=">i4")
            if len(header) != 4 or header[0] != 0x0803 or (header < 0).any():
                raise ImageError(f"{path} is not a whole IDX file of pictures")
            size = math.prod(header[1:].tolist())
            if size > MOST_BYTES:
                raise ImageError(f"{path} says that it holds {size:.3g} bytes, and {MOST_BYTES:.3g} are the most")
            data = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ImageError(f"{path} is damaged: {error}") from error
    if len(data) != size:
        raise ImageError(f"{path} is not a whole IDX file of pictures")
    return np.frombuffer(data, dtype=np.uint8).reshape(header[1:])


def _read_npz(path: Path, part: Part) -> np.ndarray:
    try:
        with np.load(path) as archive:
            for name in (part, f"x_{part}"):
                if name in archive:
                    size = archive.zip.getinfo(f"{name}.npy").file_size
                    if size > MOST_BYTES:
                        raise ImageError(
                            f"{path} says that it holds {size:.3g} bytes, and {MOST_BYTES:.3g} are the most"
                        )
                    return archive[name]
            names = ", ".join(archive) or "none"
    except ImageError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, AttributeError, TypeError, *_DAMAGED_NPZ) as error:
        raise ImageError(f"{path} is not an NPZ file of arrays: {error}") from error
    raise ImageError(f"{path} has no array {part}; its arrays are: {names}")


def _read_hub(name: str, part: Part, size: int, channels: int) -> np.ndarray:
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise ImageError(
            f"there is no folder and no file {name}; if it is a set on the Hugging Face hub: "
            "pip install 'neural-diffusion-processes[datasets]'"
        ) from None
    try:
        rows = datasets.load_dataset(name, split=part)
    except Exception as error:  # of many kinds, and all of them mean that there is no such set
        raise ImageError(f"the hub has no set {name} with a part {part}, or cannot be reached: {error}") from error
    columns = [name for name, kind in rows.features.items() if type(kind).__name__ == "Image"]
    if not columns:
        raise ImageError(f"{name} has no column of pictures; its columns are: {', '.join(rows.features)}")
    return _stack((row[columns[0]] for row in rows), size, channels)


def _open(path: Path) -> Any:
    pillow = import_module("PIL.Image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            picture = pillow.open(path)
        picture.load()
    except FileNotFoundError:
        raise ImageError(f"there is no file {path}") from None
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError):
        raise ImageError(f"{path} has more than {pillow.MAX_IMAGE_PIXELS:,} pixels; make it smaller first") from None
    except (OSError, SyntaxError, ValueError, OverflowError, zlib.error, struct.error) as error:
        raise ImageError(f"{path} is not a picture: {error}") from error
    return picture


def _stack(pictures: Iterable[Any], size: int, channels: int) -> np.ndarray:
    made = [_square(picture, size, channels) for picture in pictures]
    return np.stack(made) if made else np.zeros((0, size, size, channels), dtype=np.uint8)


def _square(picture: Any, size: int, channels: int) -> np.ndarray:
    """The largest square in the middle of a picture, at the size that is wanted: every pixel the mean of what it covers."""
    width, height = picture.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    square = picture.convert("L" if channels == 1 else "RGB").crop((left, top, left + side, top + side))
    return np.asarray(square.resize((size, size), import_module("PIL.Image").Resampling.BOX))
