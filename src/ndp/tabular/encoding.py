"""A table as a matrix of numbers: a part for each column, and where several are possible the evidence chooses.

    number      itself or a monotone map of it, and a missing indicator where missing values tell something of the target
    category    two levels: 0 and 1; else the levels' effects on the target, or a column for each level, or nothing

A missing value lies at the centre of its column. The indicator beside it is a distance from all values: it is not taken for the
centre. Where missing values tell nothing there is no indicator, and rows that lack the value are predicted without the column
(`fitted.py`). A level that was never seen is "another level": its effect is zero, and no column indicates it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np

from ndp.tabular.columns import Column, Kind
from ndp.tabular.effects import level_effects
from ndp.tabular.evidence import log_evidences
from ndp.tabular.shapes import GAIN, AsItIs, Shape, is_skewed, shapes_for

MISSING = "(missing)"  # the level of a missing value in a category
MOST_LEVELS = 200  # the most frequent ones; all others are another level
MOST_INDICATORS = 30
FEW_LEVELS = 8  # effects are for more: few levels are told apart better by columns of their own
INDICATORS_GAIN = 3.0  # nats of evidence from which a category does not get a column for each level
ROWS_COMPARED = 200  # of which the evidence is computed
COLUMNS_COMPARED = 12
COLUMNS_CHOSEN = 24  # of which the options are compared, at about 30 ms each: those that go with the target most


@runtime_checkable
class Part(Protocol):
    """What a column becomes."""

    def __call__(self, column: Column) -> np.ndarray:
        """The columns [N, K] of cells that were asked for."""
        ...

    @property
    def words(self) -> str: ...


@final
@dataclass(frozen=True)
class Number:
    """A map of the number, and a missing indicator where missing values tell something of the target."""

    shape: Shape
    centre: float
    has_indicator: bool

    def __call__(self, column: Column) -> np.ndarray:
        missing = column.missing
        values = np.where(missing, self.centre, self.shape(np.where(missing, 0.0, column.values.astype(float))))
        return np.column_stack([values, missing.astype(float)] if self.has_indicator else [values])

    @property
    def words(self) -> str:
        return ", ".join(part for part in (self.shape.words, "missing indicator" if self.has_indicator else "") if part)


@final
@dataclass(frozen=True)
class Indicators:
    """A column for each level; one column for two levels, in the middle of which any other level lies."""

    levels: tuple[str, ...]

    def __call__(self, column: Column) -> np.ndarray:
        cells = levels_of(column)
        if len(self.levels) == 2:
            known = [cells == level for level in self.levels]
            return np.where(known[1], 1.0, np.where(known[0], 0.0, 0.5))[:, None]
        return np.column_stack([(cells == level).astype(float) for level in self.levels])

    @property
    def words(self) -> str:
        return "0 and 1" if len(self.levels) == 2 else f"a column for each of {len(self.levels)} levels"


@final
@dataclass(frozen=True)
class LevelEffects:
    """One column: what each level adds to the target, shrunk to zero where few rows have it."""

    effect: dict[str, float]

    def __call__(self, column: Column) -> np.ndarray:
        return np.array([self.effect.get(cell, 0.0) for cell in levels_of(column)])[:, None]

    @property
    def words(self) -> str:
        return f"effects of {len(self.effect)} levels"


@final
@dataclass(frozen=True)
class LeftOut:
    """No column: the target does not depend on it, or it says nothing."""

    words: str = "left out: says nothing of the target"

    def __call__(self, column: Column) -> np.ndarray:
        return np.empty((len(column.values), 0))


@final
@dataclass(frozen=True)
class Zeros:
    """One column of zeros, for a table of which nothing can be used."""

    words: str = "left out: no column says anything of the target"

    def __call__(self, column: Column) -> np.ndarray:
        return np.zeros((len(column.values), 1))


@dataclass(frozen=True)
class Option:
    """A part, and the columns that it gives to the rows which are learned from."""

    part: Part
    known: np.ndarray  # [N, K]


@dataclass(frozen=True)
class Encoding:
    """A part for each column of the table."""

    parts: tuple[Part, ...]

    def __call__(self, columns: Sequence[Column]) -> np.ndarray:
        """The matrix [N, D] of rows that are asked for."""
        return np.hstack([part(column) for part, column in zip(self.parts, columns, strict=True)])

    @property
    def owners(self) -> np.ndarray:
        """The column of the table from which each column of the matrix comes, as `fit_encoding` counted them."""
        return np.repeat(np.arange(len(self.parts)), [_width(part) for part in self.parts])


def _width(part: Part) -> int:
    if isinstance(part, Number):
        return 1 + part.has_indicator
    if isinstance(part, Indicators):
        return 1 if len(part.levels) == 2 else len(part.levels)
    return 0 if isinstance(part, LeftOut) else 1


def fit_encoding(columns: Sequence[Column], y: np.ndarray) -> tuple[Encoding, np.ndarray]:
    """The encoding of a table with this target, and the matrix of its rows."""
    options = _options(columns, y)
    chosen = [each[0] for each in options]
    if np.ptp(y) > 0:
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[:ROWS_COMPARED])
        chosen = _start(options, y, rows)
        for index in _open(options, y, rows):
            chosen[index] = _best(options[index], chosen[:index] + chosen[index + 1 :], y, rows)
    if not sum(option.known.shape[1] for option in chosen):
        chosen[0] = Option(Zeros(), np.zeros((len(y), 1)))
    return Encoding(tuple(option.part for option in chosen)), np.hstack([option.known for option in chosen])


def levels_of(column: Column) -> np.ndarray:
    """The level of every row; a missing value is a level."""
    return np.where(column.missing, MISSING, column.values)


def _options(columns: Sequence[Column], y: np.ndarray) -> list[list[Option]]:
    """What each column may become. The first option holds until the others are compared with it."""
    options: list[list[Option]] = []
    for column in columns:
        options.append([] if column.type.kind is Kind.CATEGORY else _for_number(column))
    kept = {i: _frequent(column) for i, column in enumerate(columns) if column.type.kind is Kind.CATEGORY}
    many = {i: levels for i, levels in kept.items() if len(levels) > 2}
    numbers = [each[0].known for each in options if each]
    numbers += [Indicators(levels)(columns[i]) for i, levels in kept.items() if len(levels) == 2]
    known = np.hstack(numbers) if numbers else np.empty((len(y), 0))
    codes = [_codes(columns[i], levels) for i, levels in many.items()]
    effects = level_effects(known, codes, y) if codes else None
    for order, (i, levels) in enumerate(many.items()):
        assert effects is not None
        part = LevelEffects(dict(zip(levels, effects.levels[order].tolist(), strict=True)))
        of_effects = [Option(part, effects.cross_fitted[order][:, None])] if len(levels) > FEW_LEVELS else []
        options[i] = [*_indicators(columns[i], levels), *of_effects, Option(LeftOut(), np.empty((len(y), 0)))]
    for i, levels in kept.items():
        if len(levels) == 2:
            options[i] = [Option(Indicators(levels), Indicators(levels)(columns[i]))]
        elif len(levels) < 2:
            options[i] = [Option(LeftOut(_why(columns[i])), np.empty((len(y), 0)))]
    return options


def _why(column: Column) -> str:
    return "left out: all cells are the same" if len(set(levels_of(column))) < 2 else "left out: no text comes twice"


def _indicators(column: Column, levels: tuple[str, ...]) -> list[Option]:
    """A column for each level; and, where these are fewer, for each level of at least two rows."""
    count = Counter(levels_of(column).tolist())
    sets = {levels: None, tuple(level for level in levels if count[level] > 1): None}
    parts = [Indicators(one) for one in sets if 2 < len(one) <= MOST_INDICATORS]
    return [Option(part, part(column)) for part in parts]


def _frequent(column: Column) -> tuple[str, ...]:
    """The levels in alphabetical order, without rare ones of many; none where all cells are different."""
    count = Counter(levels_of(column).tolist())
    if len(count) > 2 and max(count.values()) < 2:
        return ()
    return tuple(sorted(level for level, _ in count.most_common(MOST_LEVELS)))


def _codes(column: Column, levels: tuple[str, ...]) -> np.ndarray:
    place = {level: index for index, level in enumerate(levels)}
    return np.array([place.get(cell, -1) for cell in levels_of(column)])


def _for_number(column: Column) -> list[Option]:
    """Each map of a skewed number; where values are missing, with an indicator and without."""
    missing = column.missing
    if missing.all():
        return [Option(LeftOut("left out: it has no values"), np.empty((len(missing), 0)))]
    values = column.values.astype(float)[~missing]
    shapes = shapes_for(values) if is_skewed(values) else [AsItIs()]
    found: list[Option] = []
    for has_indicator in (True, False) if missing.any() else (False,):
        for shape in shapes:
            part = Number(shape, float(shape(values).mean()), has_indicator)
            found.append(Option(part, part(column)))
    return found


def _start(options: list[list[Option]], y: np.ndarray, rows: np.ndarray) -> list[Option]:
    """All skewed numbers as they are, or all mapped in one way: one by one, the first would not gain beside the others."""
    ways = {option.part.shape.words for each in options for option in each if isinstance(option.part, Number)}
    starts = [[_mapped(each, way) for each in options] for way in sorted(ways)]
    if len(starts) < 2:
        return starts[0] if starts else [each[0] for each in options]
    matrices = [_relevant(np.hstack([option.known for option in start])[rows], y[rows]) for start in starts]
    return starts[int(np.argmax(log_evidences(matrices, y[rows])))]


def _mapped(options: list[Option], way: str) -> Option:
    """The number mapped in this way, if it is skewed; else the first option."""
    found = [one for one in options if isinstance(one.part, Number) and one.part.shape.words == way]
    return found[0] if found else options[0]


def _best(options: list[Option], others: list[Option], y: np.ndarray, rows: np.ndarray) -> Option:
    """The option with the most evidence beside the others.

    A number is mapped, and a category has no column for each level, only where that is clearly better.
    """
    beside = _relevant(np.hstack([one.known for one in others])[rows] if others else np.empty((len(rows), 0)), y[rows])
    found = np.array(log_evidences([np.hstack([option.known[rows], beside]) for option in options], y[rows]))
    found += [GAIN * (isinstance(one.part, Number) and isinstance(one.part.shape, AsItIs)) for one in options]
    found[0] += INDICATORS_GAIN * isinstance(options[0].part, Indicators)
    return options[int(found.argmax())]


def _open(options: list[list[Option]], y: np.ndarray, rows: np.ndarray) -> list[int]:
    """The columns of the table with several options, in order; of many, those that go with the target most in ranks."""
    several = [index for index, each in enumerate(options) if len(each) > 1]
    if len(several) <= COLUMNS_CHOSEN:
        return several
    strength = [_along(options[index][0].known[rows], y[rows]).max(initial=0.0) for index in several]
    return sorted(several[place] for place in np.argsort(-np.array(strength), kind="stable")[:COLUMNS_CHOSEN])


def _relevant(matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The columns that go with the target most, in ranks."""
    if matrix.shape[1] <= COLUMNS_COMPARED:
        return matrix
    return matrix[:, np.sort(np.argsort(-_along(matrix, y), kind="stable")[:COLUMNS_COMPARED])]


def _along(matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The rank correlation of each column with the target, in size."""
    of_target = _ranks(y)
    return np.abs(np.array([float(_ranks(column) @ of_target) for column in matrix.T]))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[inverse]
    away = ranks - ranks.mean()
    size = np.sqrt((away**2).sum())
    return away / size if size > 0 else away
