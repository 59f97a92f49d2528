"""Damaged and odd files: a table or a picture is read as what it says, or refused in one sentence that names the file.

A CSV file has no checksum, so a flipped digit is another number. What is held is that whatever is read has the form of a table:
finite numbers of a size to compute with, in columns of different names.
"""

import bz2
import gzip
import io
import lzma
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.reliability.attempts import Attempt, Sizes, bad_message, is_refused
from ndp.apps.predicting import QUANTILES, predict_to_files
from ndp.core.arrays import LARGEST
from ndp.core.io.images import is_grey, read_image_set, read_picture
from ndp.core.io.tables import read_inputs, read_observations, read_table
from ndp.priors.functions import read_functions

ROWS = 20


def attempts(sizes: Sizes, folder: Path) -> Iterator[Attempt]:
    """Flipped bytes in files of every kind, files of the wrong kind, and odd tables."""
    for name, count, make, read in (
        ("CSV of observations", 100, csv_bytes, _read_observations),
        ("CSV of functions", 40, functions_bytes, _read_functions("csv")),
        ("Parquet file", 60, parquet_bytes, _read_functions("parquet")),
        ("NPZ file of functions", 60, npz_bytes, _read_functions("npz")),
        ("PNG picture", 60, png_bytes, _read_picture),
        ("file of MNIST", 40, idx_bytes, _read_idx),
        ("NPZ file of pictures", 40, pictures_bytes, _read_pictures),
    ):
        whole = make()
        for seed in range(sizes.of(count)):
            run = partial(_damaged, whole, read, folder, sizes.seed + seed)
            yield Attempt(f"{name}, damage {seed}", run)
    for seed in range(sizes.of(30)):
        yield Attempt(f"damaged table in ndp predict {seed}", partial(_predicted, folder, sizes.seed + seed))
    cases = [*_wrong_kinds(folder), *_odd_tables(folder)]
    order = np.random.default_rng(sizes.seed).permutation(len(cases))
    yield from (cases[i] for i in order[: sizes.of(len(cases))])


def csv_bytes() -> bytes:
    """A table of observations of one function."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.6f},{b:.6f},{c:.4f},0.1" for a, b, c in rng.normal(size=(ROWS, 3))]
    return "\n".join(["x1,x2,y,noise", *rows, ""]).encode()


def functions_bytes() -> bytes:
    """A table of functions."""
    rng = np.random.default_rng(0)
    rows = [f"{task},{x:.4f},{y:.4f}" for task in "abcd" for x, y in rng.normal(size=(5, 2))]
    return "\n".join(["task,x,y", *rows, ""]).encode()


def parquet_bytes() -> bytes:
    """The same as Parquet."""
    import pyarrow
    import pyarrow.parquet

    file, rng = io.BytesIO(), np.random.default_rng(0)
    columns = {"task": np.repeat(np.arange(4), 5), "x": rng.normal(size=20), "y": rng.normal(size=20)}
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def npz_bytes() -> bytes:
    """The same as NPZ."""
    file, rng = io.BytesIO(), np.random.default_rng(0)
    np.savez_compressed(file, task=np.repeat(np.arange(4), 5), x=rng.normal(size=20), y=rng.normal(size=20))
    return file.getvalue()


def png_bytes() -> bytes:
    """A picture of noise."""
    from PIL import Image

    file, rng = io.BytesIO(), np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, size=(28, 28, 3), dtype=np.uint8)).save(file, "png")
    return file.getvalue()


def idx_bytes() -> bytes:
    """Pictures in the format of MNIST, compressed."""
    pictures = np.random.default_rng(0).integers(0, 255, size=(5, 28, 28), dtype=np.uint8)
    return gzip.compress(np.array([0x0803, 5, 28, 28], dtype=">i4").tobytes() + pictures.tobytes())


def pictures_bytes() -> bytes:
    """Pictures as NPZ."""
    file = io.BytesIO()
    np.savez_compressed(file, train=np.random.default_rng(0).integers(0, 255, size=(5, 28, 28), dtype=np.uint8))
    return file.getvalue()


def damage(whole: bytes, seed: int) -> bytes:
    """The bytes with some of them flipped, left out, doubled or replaced by text that is hostile to readers."""
    rng = np.random.default_rng(seed)
    data = bytearray(whole)
    for _ in range(int(rng.integers(1, 3))):
        at, length = int(rng.integers(len(data))), int(rng.integers(1, 12))
        match int(rng.integers(9)):
            case 0:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at : at + length] = rng.bytes(length)
            case 4:
                del data[max(at, 1) :]
            case 5 | 6 | 7:  # what a slip of a finger writes
                data[at : at + 1] = rng.choice(list(b"0123456789.,-e\n ")).astype(np.uint8).tobytes()
            case _:
                odd = [
                    b"\0",
                    b'"',
                    b"\r",
                    b"\n\n",
                    b",",
                    b"1e999",
                    b"nan",
                    b"\xff\xfe",
                    b"\x1b[2J",
                    b"_",
                    b"9" * 400,
                    b"-",
                ]
                data[at:at] = odd[int(rng.integers(len(odd)))]
    return bytes(data)


def _damaged(whole: bytes, read: Callable[[Path, bytes], str | None], folder: Path, seed: int) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(folder, damage(whole, seed))
    except ValueError as error:
        return bad_message(str(error), str(folder))


def _read_observations(folder: Path, data: bytes) -> str | None:
    path = folder / "observations.csv"
    path.write_bytes(data)
    found = read_observations(path)
    if found.x.shape != (len(found.y), found.x.shape[1]) or not 1 <= found.x.shape[1] <= 3:
        return f"reads inputs of shape {found.x.shape}"
    every = [found.x, found.y, *([] if found.noise is None else [found.noise])]
    return None if all(_computable(values) for values in every) else "reads numbers that are not finite, or too large"


def _computable(values: np.ndarray) -> bool:
    return values.dtype == np.float64 and bool((np.abs(values) <= LARGEST).all())


def _read_functions(ending: str) -> Callable[[Path, bytes], str | None]:
    def read(folder: Path, data: bytes) -> str | None:
        path = folder / f"functions.{ending}"
        path.write_bytes(data)
        found = read_functions(path)
        if not all(np.isfinite(values.numpy()).all() for values in (found.x, found.y)):
            return "reads numbers that are not finite"
        return None if len(set(found.names)) == len(found) else "reads two functions of one name"

    return read


def _read_picture(folder: Path, data: bytes) -> str | None:
    path = folder / "picture.png"
    path.write_bytes(data)
    is_grey(path)
    found = read_picture(path, size=28, channels=3)
    whole = found.shape == (28, 28, 3) and bool(((found >= 0) & (found <= 1)).all())
    return None if whole else f"reads a picture of shape {found.shape}"


def _read_idx(folder: Path, data: bytes) -> str | None:
    return _read_set(folder / "mnist", "train-images-idx3-ubyte.gz", data)


def _read_pictures(folder: Path, data: bytes) -> str | None:
    return _read_set(folder / "npz", "digits.npz", data)


def _read_set(folder: Path, name: str, data: bytes) -> str | None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    read_image_set.cache_clear()
    found = read_image_set(str(folder), "train", 28, 1)
    whole = found.shape[1:] == (28, 28, 1) and found.dtype == np.uint8
    return None if whole else f"reads pictures of shape {found.shape}"


def _predicted(folder: Path, seed: int) -> str | None:
    """A damaged table in `ndp predict`: a whole file of predictions, or one sentence and no file."""
    rng = np.random.default_rng(1)
    rows = [
        f"{a:.4f},{b:.4f},{c:.4f}" if i > 3 else f"{a:.4f},{b:.4f},"
        for i, (a, b, c) in enumerate(rng.normal(size=(9, 3)))
    ]
    train, out = folder / "train.csv", folder / "predicted" / "predictions.csv"
    train.write_bytes(damage("\n".join(["a,b,c", *rows, ""]).encode(), seed))
    out.unlink(missing_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = predict_to_files(train, target="c", at=None, out=out, plot=None, model="universal", seed=0)
    except ValueError as error:
        if out.parent.exists() and any(out.parent.iterdir()):
            return "is refused, and leaves a file"
        return bad_message(str(error))
    written = pd.read_csv(out).iloc[:, -2 - len(QUANTILES) :].to_numpy(dtype=np.float64)  # inputs may be text
    if len(written) != found.predicted or not np.isfinite(written).all():
        return f"{found.predicted} predictions are {len(written)} rows, finite: {np.isfinite(written).all()}"
    return None


def _wrong_kinds(folder: Path) -> Iterator[Attempt]:
    """Files of one kind under the name of another."""
    text, several = csv_bytes(), {"parquet": parquet_bytes(), "npz": npz_bytes(), "png": png_bytes()}
    kinds = {
        "gzip": (gzip.compress(text), "gzip"),
        "bzip2": (bz2.compress(text), "bzip2"),
        "xz": (lzma.compress(text), "xz"),
        "UTF-16": (text.decode().encode("utf-16"), "UTF-16"),
        "UTF-16, big-endian": (b"\xfe\xff" + text.decode().encode("utf-16-be"), "UTF-16"),
        "UTF-16 without a mark": (text.decode().encode("utf-16-le"), "zero bytes"),
        "UTF-32": (text.decode().encode("utf-32"), "UTF-32"),
        "Latin-1": ("x1,y\n0,1\n# caf\u00e9,2\n".encode("latin-1"), "CSV"),
        "Parquet": (several["parquet"], "Parquet"),
        "NPZ": (several["npz"], "ZIP"),
        "picture": (several["png"], "picture"),
        "zero bytes": (bytes(1000), "zero"),
        "random bytes": (np.random.default_rng(0).bytes(1000), "CSV"),
        "empty": (b"", "empty"),
    }
    for name, (data, word) in kinds.items():
        for read in (read_table, read_observations, read_inputs):
            yield Attempt(f"{name} for {read.__name__}", partial(_refused_file, folder / "kind.csv", data, read, word))
    for ending in ("parquet", "npz", "csv", "png"):
        for name, data in {**several, "csv": text, "nothing": b""}.items():
            path = folder / f"kind.{ending}"
            if ending != name and ending == "png":
                run = partial(_refused_file, path, data, partial(read_picture, size=28, channels=1), "kind.png")
                yield Attempt(f"{name} as a picture", run)
            elif ending != name:
                run = partial(_refused_file, path, data, read_functions, "kind.")
                yield Attempt(f"{name} as a table of functions in {ending}", run)


def _refused_file(path: Path, data: bytes, read: Callable[[Path], object], word: str) -> str | None:
    path.write_bytes(data)
    return is_refused(lambda: read(path), word)


def _odd_tables(folder: Path) -> Iterator[Attempt]:
    """Tables that a person, a spreadsheet or a script writes."""
    path = folder / "odd.csv"
    refused = {
        "only a header, for inputs": ("x1\n", "no rows", read_inputs),
        "blank": ("\n\n \n", "empty", read_table),
        "an empty first row": ("\nx1,y\n1,2\n", "first row", read_table),
        "a short row": ("x1,y\n1,2\n3\n", "row 3", read_table),
        "a long row": ("x1,y\n1,2,3\n", "row 2", read_table),
        "a column twice": ("x1,y,y\n1,2,3\n", "more than once", read_table),
        "a column twice but for spaces": ("x1,y, y \n1,2,3\n", "more than once", read_table),
        "semicolons": ("x1;y\n1;2\n", "semicolons", read_table),
        "semicolons and decimal commas": ("x1;y\n1,5;2,5\n", "semicolons", read_table),
        "tabs": ("x1\ty\n1\t2\n", "tabs", read_table),
        "bars": ("x1|y\n1|2\n", "bars", read_table),
        "decimal commas in quotes": ('x1,y\n"1,5",2\n', "row 2, column x1", read_observations),
        "thousands by commas": ('x1,y\n"1,000",2\n', "row 2, column x1", read_observations),
        "thousands by underscores": ("x1,y\n1_000,2\n", "row 2, column x1", read_observations),
        "thousands by spaces": ("x1,y\n1 000,2\n", "row 2, column x1", read_observations),
        "Arabic digits": ("x1,y\n\u0661\u0662,2\n", "row 2, column x1", read_observations),
        "a minus of typesetters": ("x1,y\n\u22121,2\n", "row 2, column x1", read_observations),
        "a currency": ("x1,y\n$1,2\n", "row 2, column x1", read_observations),
        "a share": ("x1,y\n5%,2\n", "row 2, column x1", read_observations),
        "a date": ("x1,y\n2020-01-01,2\n", "row 2, column x1", read_observations),
        "hexadecimal": ("x1,y\n0x10,2\n", "row 2, column x1", read_observations),
        "true and false": ("x1,y\ntrue,2\n", "row 2, column x1", read_observations),
        "infinity": ("x1,y\nInfinity,2\n", "finite", read_observations),
        "NaN": ("x1,y\nNaN,2\n", "finite", read_observations),
        "1e999": ("x1,y\n1e999,2\n", "finite", read_observations),
        "1e301": ("x1,y\n1e301,2\n", "1e+300", read_observations),
        "a zero byte late": ("x1,y\n" + "1,2\n" * 3000 + "1\0,2\n", "row 3002", read_observations),
        "an open quote": ('x1,y\n1,2\n"3,4\n5,6\n', "row 3", read_observations),
        "a cell of a megabyte": ("x1,y\n" + "1" * 10**6 + ",2\n", "field larger", read_observations),
        "a cell of a hundred thousand letters": ("x1,y\n" + "z" * 10**5 + ",2\n", "row 2", read_observations),
        "a name of a hundred thousand letters": ("z" * 10**5 + "\n1\n", "no column", read_observations),
        "a name of several lines": ('"x1\n\nz",w\n1,2\n', "no column", read_observations),
        "a thousand columns": (",".join(f"c{i}" for i in range(1000)) + "\n", "and 980 more", read_observations),
        "escape sequences": ("\x1b[2J\x1b[H,b\n1,2\n", "no column", read_observations),
        "no header": ("0.5,1\n0.6,2\n", "no column", read_observations),
        "no x2": ("x1,x3,y\n1,2,3\n", "x2", read_observations),
        "a negative noise": ("x1,y,noise\n1,2,-1\n", "negative", read_observations),
        "an empty cell": ("x1,y\n,2\n", "nothing", read_observations),
    }
    for name, (text, word, read) in refused.items():
        yield Attempt(name, partial(_refused_file, path, text.encode(), read, word))
    for name, text in {
        "a mark of UTF-8": "\ufeffx1,y\n1,2\n",
        "ends of lines of Windows": "x1,y\r\n1,2\r\n",
        "ends of lines of old Macs": "x1,y\r1,2\r",
        "no last end of line": "x1,y\n1,2",
        "quotes": '"x1","y"\n"1","2"\n',
        "spaces": " x1 , y \n 1 , 2 \n",
        "blank lines": "x1,y\n\n1,2\n , \n",
        "empty columns": "x1,,y,\n1,,2,\n",
        "a column of text": "x1,name,y\n1,caf\u00e9,2\n",
        "other forms of numbers": "x1,y\n+1.0e0,.2E1\n",
    }.items():
        yield Attempt(name, partial(_reads_one_and_two, path, text))


def _reads_one_and_two(path: Path, text: str) -> str | None:
    path.write_bytes(text.encode())
    found = read_observations(path)
    return None if (found.x.tolist(), found.y.tolist()) == ([[1.0]], [2.0]) else f"reads {found.x} and {found.y}"
