"""Pictures show what they were given."""

import numpy as np
import pytest

from ndp.core.plotting import (
    label_once,
    new_figure,
    new_grid,
    plot_coloured_draws,
    plot_context,
    plot_draws,
    plot_fan,
    plot_marginal,
    plot_posterior,
    plot_rank_histogram,
)

X = np.array([0.5, -1.0, 0.0])


def test_inputs_are_drawn_in_order_whatever_order_they_come_in() -> None:
    _, (ax,) = new_figure(1)
    plot_draws(ax, X, np.array([[3.0, 1.0, 2.0]]))
    line = ax.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [-1.0, 0.0, 0.5])
    np.testing.assert_array_equal(line.get_ydata(), [1.0, 2.0, 3.0])


def test_a_posterior_is_a_band_some_draws_a_mean_and_its_observations() -> None:
    figure, (ax,) = new_figure(1, title="A title")
    draws = np.zeros((40, 3))
    context = np.array([0.1]), np.array([0.2])
    plot_posterior(ax, X, draws=draws, mean=X, std=np.ones(3), context=context, most_draws=5)
    assert set(ax.get_legend_handles_labels()[1]) == {"mean ± 2 std", "draws", "mean", "observations"}
    assert sum(len(line.get_xdata()) == 3 for line in ax.lines) == 6, "five draws and the mean"
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (-3.0, 2.5)
    label_once(figure, ax, ax)
    assert len(figure.legends[0].get_texts()) == 4


@pytest.mark.parametrize(("width", "columns"), [(9.0, 4), (4.0, 2), (0.5, 1)])
def test_a_legend_is_as_wide_as_its_figure_at_most(width: float, columns: int) -> None:
    figure, axes = new_grid(1, 1, size=(width, 3.0))
    for index in range(4):
        axes[0, 0].plot([0, 1], [0, index], label=f"a line of some length, {index}")
    label_once(figure, axes[0, 0])
    (legend,) = figure.legends
    assert legend._ncols == columns
    assert len(legend.get_texts()) == 4


def test_a_fan_has_nested_bands_and_a_median() -> None:
    _, (ax,) = new_figure(1)
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    plot_fan(ax, X, np.array(levels)[:, None] * np.ones(3), levels)
    named = {band.get_label(): band for band in ax.collections if not band.get_label().startswith("_")}
    bands = [band for band in ax.collections if band not in named.values()]
    spans = [np.ptp(band.get_paths()[0].vertices[:, 1]) for band in bands]
    np.testing.assert_allclose(spans, [0.9, 0.5])
    assert list(named) == ["90% of draws", "50% of draws"]
    shades = [band.get_alpha() for band in named.values()]  # as they are seen, one on top of the other
    np.testing.assert_allclose(shades, [bands[0].get_alpha(), 1 - (1 - bands[0].get_alpha()) ** 2])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), 0.5)


def test_a_marginal_lies_on_its_side_and_sums_to_one() -> None:
    _, (ax,) = new_figure(1)
    plot_marginal(ax, np.array([0.0, 0.1, 1.0, 1.0]), np.array([-0.5, 0.5, 1.5]), label="law")
    heights = ax.patches[0].get_data()
    np.testing.assert_array_equal(heights.values, [0.5, 0.5])
    assert ax.patches[0].orientation == "horizontal"
    assert ax.get_xlim()[0] == 0


def test_coloured_draws_differ_in_colour_as_their_numbers_do() -> None:
    _, (ax,) = new_figure(1)
    plot_coloured_draws(ax, X, np.zeros((3, 3)), np.array([0.1, 0.1, 1.0]), limits=(0.1, 1.0))
    first, second, third = (line.get_color() for line in ax.lines)
    np.testing.assert_array_equal(first, second)
    assert np.abs(np.subtract(first, third)).max() > 0.3


def test_nothing_observed_is_nothing_drawn() -> None:
    _, (ax,) = new_figure(1)
    plot_context(ax, np.zeros(0), np.zeros(0))
    assert not ax.lines


def test_the_band_of_a_rank_histogram_holds_nearly_all_bins_of_uniform_ranks() -> None:
    _, (ax,) = new_figure(1)
    counts = np.bincount(np.random.default_rng(0).integers(0, 1000, 100_000), minlength=1000)
    plot_rank_histogram(ax, counts)
    band = next(patch for patch in ax.patches if patch.get_label().startswith("99 in 100"))
    low, high = band.get_y(), band.get_y() + band.get_height()
    assert ((counts >= low) & (counts <= high)).mean() == pytest.approx(0.99, abs=0.012)


def test_a_grid_has_the_panels_asked_for() -> None:
    figure, axes = new_grid(2, 3, size=(2.0, 1.5), widths=(1.0, 1.0, 0.5), heights=(1.0, 2.0), share_y="row")
    assert axes.shape == (2, 3)
    np.testing.assert_allclose(figure.get_size_inches(), [1.2 + 5.0, 4.5])
