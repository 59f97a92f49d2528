"""Categories, gaps and skewed numbers become what explains the target, and follow changes of units."""

import numpy as np
import pandas as pd
import pytest

from ndp.tabular.columns import Column, ColumnType, Kind, column_types, raw_columns, read_columns
from ndp.tabular.effects import level_effects
from ndp.tabular.encoding import Indicators, LeftOut, LevelEffects, Number, fit_encoding
from ndp.tabular.evidence import log_evidences
from ndp.tabular.shapes import AsItIs, is_skewed, shapes_for


def columns_of(table: pd.DataFrame) -> tuple[Column, ...]:
    raw = raw_columns(table)
    return read_columns(raw, column_types(raw))


def levels(rng: np.random.Generator, rows: int, count: int) -> np.ndarray:
    return np.array([f"level {i}" for i in range(count)], dtype=object)[rng.integers(count, size=rows)]


def test_effects_of_levels_are_shrunk_and_found_without_the_row_itself() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(8, size=400)
    true, x = rng.normal(size=8), rng.normal(size=(400, 1))
    y = 2 * x[:, 0] + true[codes] + 0.3 * rng.normal(size=400)
    found = level_effects(x, [codes], y)
    slope = np.polyfit(true, found.levels[0], 1)[0] * y.std()
    assert slope == pytest.approx(1, abs=0.05)
    assert np.corrcoef(true, found.levels[0])[0, 1] > 0.99
    noise = level_effects(x, [codes], rng.normal(size=400))
    assert np.abs(noise.levels[0]).max() < 0.1
    alone = level_effects(x, [np.arange(400)], y)  # each level once: nothing is known of it without its row
    np.testing.assert_allclose(alone.cross_fitted[0], 0.0, atol=1e-12)


def test_what_explains_the_target_is_chosen() -> None:
    rng = np.random.default_rng(1)
    x, kind, noise = rng.normal(size=(150, 1)), levels(rng, 150, 25), levels(rng, 150, 12)
    effect = dict(zip(np.unique(kind), rng.normal(size=25), strict=True))
    y = np.sin(x[:, 0]) + np.array([effect[one] for one in kind]) + 0.1 * rng.normal(size=150)
    table = pd.DataFrame({"x": x[:, 0], "kind": kind, "noise": noise, "id": [f"row {i}" for i in range(150)]})
    encoding, matrix = fit_encoding(columns_of(table), y)
    assert isinstance(encoding.parts[0], Number)
    assert not isinstance(encoding.parts[1], LeftOut)
    assert isinstance(encoding.parts[2], LeftOut)
    assert encoding.parts[3] == LeftOut("left out: no text comes twice")
    assert matrix.shape == (150, len(encoding.owners))
    assert set(encoding.owners) == {0, 1}


def test_two_levels_are_one_column_and_other_levels_lie_between() -> None:
    column = columns_of(pd.DataFrame({"a": ["no", "yes", "no", "yes"]}))[0]
    encoding, matrix = fit_encoding([column], np.arange(4.0))
    np.testing.assert_array_equal(matrix, [[0], [1], [0], [1]])
    asked = Column(column.type, np.array(["yes", "perhaps", None], dtype=object))
    np.testing.assert_array_equal(encoding([asked]), [[1], [0.5], [0.5]])


def test_unseen_levels_are_another_level_and_gaps_a_level() -> None:
    part = LevelEffects({"a": 1.0, "b": -1.0, "(missing)": 0.5})
    column = Column(ColumnType("c", Kind.CATEGORY), np.array(["a", "z", None], dtype=object))
    np.testing.assert_array_equal(part(column), [[1.0], [0.0], [0.5]])
    np.testing.assert_array_equal(Indicators(("a", "b", "(missing)"))(column), [[1, 0, 0], [0, 0, 0], [0, 0, 1]])


def test_gaps_are_marked_where_they_tell_something() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(120, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=120)
    gaps = rng.random(120) < 0.3
    table = pd.DataFrame(x, columns=["a", "b"])
    told = table.assign(a=np.where(gaps, np.nan, x[:, 0]))
    encoding, matrix = fit_encoding(columns_of(told), y + 3.0 * gaps)
    assert encoding.parts[0].has_indicator
    np.testing.assert_array_equal(matrix[:, 1], gaps)
    np.testing.assert_allclose(matrix[gaps, 0], np.nanmean(told["a"]))
    untold = table.assign(b=np.where(gaps, np.nan, x[:, 1]))
    assert not fit_encoding(columns_of(untold), y)[0].parts[1].has_indicator


@pytest.mark.parametrize("scale", [1.0, -3.0, 1e-6, 1e9])
def test_maps_of_skewed_numbers_follow_changes_of_units(scale: float) -> None:
    rng = np.random.default_rng(3)
    x, asked = np.exp(2 * rng.normal(size=200)), np.array([-1.0, 0.0, 0.3, 5.0, 1e4])
    assert is_skewed(x)
    moved = scale * x + 7 * scale
    for here, there in zip(shapes_for(x), shapes_for(moved), strict=True):
        rising = here(np.sort(np.append(x, asked)))
        assert (np.diff(rising) >= 0).all()
        spread = here(x).std(), there(moved).std()
        expected = np.sign(scale) * (here(asked) - here(x).mean()) / spread[0]
        found = (there(scale * asked + 7 * scale) - there(moved).mean()) / spread[1]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_skewed_numbers_are_mapped_only_where_evidence_says_so() -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(size=(150, 2))
    table = pd.DataFrame(np.exp(2 * z), columns=["weight", "length"])
    y = np.sin(z[:, 0]) + z[:, 1] + 0.1 * rng.normal(size=150)
    parts = fit_encoding(columns_of(table), y)[0].parts
    assert [part.shape.words for part in parts] != ["", ""]
    linear = table["weight"] + 0.1 * table["weight"].std() * rng.normal(size=150)
    parts = fit_encoding(columns_of(table[["weight"]]), linear.to_numpy())[0].parts
    assert isinstance(parts[0].shape, AsItIs)


def test_evidence_prefers_what_the_target_depends_on_and_counts_columns() -> None:
    rng = np.random.default_rng(5)
    x, junk = rng.normal(size=(80, 1)), rng.normal(size=(80, 3))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=80)
    right, more, wrong, nothing = log_evidences([x, np.hstack([x, junk]), junk, np.zeros((80, 1))], y)
    assert right > more > nothing
    assert right > nothing > wrong - 2


def test_of_many_columns_the_promising_ones_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def count(candidates: list[np.ndarray], y: np.ndarray) -> list[float]:
        asked.append(len(candidates))
        return log_evidences(candidates, y)

    monkeypatch.setattr("ndp.tabular.encoding.log_evidences", count)
    rng = np.random.default_rng(6)
    z = rng.normal(size=(60, 40))
    parts = fit_encoding(columns_of(pd.DataFrame(np.exp(3 * z)).rename(columns=str)), z[:, 37])[0].parts
    assert len(asked) <= 25
    assert parts[37].words != ""
