"""How `python -m benchmarks regression` runs: which cells and rows, and files that are written as soon as there is a score."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.regression import DIMS, KERNELS, OTHERS, QUICK, ROWS, Score, Settings, measure
from benchmarks.regression_report import as_markdown, picture, read_scores, with_newer, write_scores
from benchmarks.report import Progress, Table
from ndp.core.io.files import atomic_write


@dataclass(frozen=True)
class Selection:
    """The cells and rows that are measured."""

    kernels: tuple[str, ...]
    dims: tuple[int, ...]
    rows: tuple[str, ...]

    @staticmethod
    def of(kernels: str, dims: tuple[int, ...] | None, rows: str) -> "Selection":
        """From text such as "se,matern52", and the rows whose name holds one of the texts in "GP,GNP"."""
        known = (*KERNELS, *OTHERS)
        for kernel in kernels.split(","):
            if kernel not in known:
                raise ValueError(f"there is no kernel named {kernel!r}; there are: {', '.join(known)}")
        texts = rows.split(",")
        for text in texts:
            if not any(text in row for row in ROWS):
                raise ValueError(f"no row's name holds {text!r}; there are: {', '.join(ROWS)}")
        chosen = tuple(row for row in ROWS if any(text in row for text in texts))
        return Selection(tuple(kernels.split(",")), dims or DIMS, chosen)

    def places(self, kernel: str) -> Iterator[tuple[int, str]]:
        """Dimensions and rows of a kernel; those without an exact process are for D = 1."""
        for dim in self.dims:
            if kernel in KERNELS or dim == 1:
                yield from ((dim, row) for row in self.rows)


@dataclass(frozen=True)
class Scores:
    """What a run measured, beside what was measured before it."""

    name: str
    tables: list[Table]
    findings: str
    markdown: str
    failed: bool = False

    def write(self, out: Path) -> dict[str, Path]:
        """The table in Markdown; scores and figures were written as they were made."""
        with atomic_write(out / f"{self.name}.md") as temporary:
            temporary.write_text(self.markdown)
        return {"Numbers, table and figures": out / f"{self.name}*"}


def reproduce(
    selection: Selection, settings: Settings, *, quick: bool, models: Path, shift: float, out: Path, progress: Progress
) -> Scores:
    """Measure the selection; every score is added to the file of scores at once, and each kernel has its figure.

    `quick` has settings and files of its own.
    """
    name = "regression-quick" if quick else "regression"
    settings = replace(QUICK, device=settings.device) if quick else settings
    file = out / f"{name}.json"
    before = read_scores(file)
    scores: list[Score] = []
    missing = []
    for kernel in selection.kernels:
        for dim, row in selection.places(kernel):
            progress(f"{kernel}, D = {dim}: {row}")
            found = list(measure(row, kernel, dim, settings, models=models, shift=shift))
            scores += found
            if not found:
                missing.append(f"{row} for {kernel} at D = {dim}")
            write_scores(file, with_newer(before, scores))
        if kernel in KERNELS:
            progress(f"{kernel}: drawing the figure")
            picture(out / f"regression-{kernel}.png", kernel, models=models)
    return Scores(name, [table(scores)], _left_out(missing, models), as_markdown(with_newer(before, scores)))


def table(scores: list[Score]) -> Table:
    """One row a score."""
    headings = ("kernel", "D", "row", "by", "nats a point", "gap to the exact GP", "calls", "ms a draw")
    return Table("", headings, [_cells(score) for score in scores])


def _cells(score: Score) -> tuple[str, ...]:
    speed = "" if score.seconds_per_draw is None else f"{1e3 * score.seconds_per_draw:.3g}"
    gap, calls = str(score.gap or ""), str(score.calls or "")
    return score.kernel, str(score.dim), score.row, score.estimator, str(score.log_prob), gap, calls, speed


def _left_out(missing: list[str], models: Path) -> str:
    if not missing:
        return ""
    return f"No model in {models}, so left out: {'; '.join(missing)}. `ndp train --help` says how to train one."
