"""Tables of functions: split and scaled exactly, and drawn row by row from the right function."""

import pytest
import torch

from ndp.priors.functions import Functions, TableSource, scaled, split, units_of
from ndp.priors.tasks import Source


def ragged(rows: list[int], dim: int = 1, outputs: int = 1) -> Functions:
    """Functions whose every value tells where it stands: task + row / 1000, and the same negative in the outputs."""
    tasks, longest = len(rows), max(rows)
    value = torch.arange(tasks)[:, None] + torch.arange(1, longest + 1, dtype=torch.float64) / 1000
    mask = torch.arange(longest) < torch.tensor(rows)[:, None]
    value = value.masked_fill(~mask, float("nan"))  # what padding holds must not matter
    x = torch.stack([value + 100 * d for d in range(dim)], dim=-1)
    y = torch.stack([-value - 100 * p for p in range(outputs)], dim=-1)
    return Functions(x, y, mask, tuple(str(i) for i in range(tasks)))


# Splitting


def test_a_split_keeps_functions_whole() -> None:
    functions = ragged([3, 1, 4, 2, 5, 2, 2, 3, 1, 4] * 5)
    train, validation = split(functions, 0.2, seed=3)
    assert (len(train), len(validation)) == (40, 10)
    assert sorted(train.names + validation.names, key=int) == list(functions.names)
    for side in (train, validation):
        for i, name in enumerate(side.names):
            assert torch.equal(side.mask[i], functions.mask[int(name)])
            for held, original in ((side.x, functions.x), (side.y, functions.y)):
                torch.testing.assert_close(held[i], original[int(name)], rtol=0, atol=0, equal_nan=True)


def test_a_split_is_a_function_of_its_seed() -> None:
    functions = ragged([2] * 40)
    first, again, other = (split(functions, seed=seed)[1].names for seed in (0, 0, 1))
    assert first == again
    assert first != other
    chosen = {name for seed in range(60) for name in split(functions, seed=seed)[1].names}
    assert len(chosen) == 40  # every function may be among them


@pytest.mark.parametrize(
    ("tasks", "share", "count"), [(2, 0.9, 1), (2, 0.01, 1), (5, 0.1, 1), (5, 0.99, 4), (30, 0.1, 3)]
)
def test_both_sides_of_a_split_have_a_function(tasks: int, share: float, count: int) -> None:
    train, validation = split(ragged([2] * tasks), share)
    assert (len(train), len(validation)) == (tasks - count, count)


def test_what_cannot_be_split() -> None:
    for share in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(ValueError, match="validation_share must lie between 0 and 1"):
            split(ragged([2, 2]), share)
    with pytest.raises(ValueError, match="at least two functions are needed for a split, and there is 1"):
        split(ragged([2]))


# Units


def test_scaled_functions_fill_the_range_and_are_standardised() -> None:
    generator = torch.Generator().manual_seed(0)
    functions = ragged([3, 7, 1, 5], dim=2, outputs=2)
    noise = torch.randn(functions.y.shape, generator=generator, dtype=torch.float64)
    functions = Functions(functions.x * 1e6 + 1.7e9, functions.y + 50 * noise, functions.mask, functions.names)
    units = units_of(functions)
    model = scaled(functions, units)
    x, y = model.x[model.mask], model.y[model.mask]
    torch.testing.assert_close(x.amin(0), torch.full((2,), -2.0, dtype=torch.float64))
    torch.testing.assert_close(x.amax(0), torch.full((2,), 2.0, dtype=torch.float64))
    torch.testing.assert_close(y.mean(0), torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(y.square().mean(0), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(units.on().from_model_y(y[None])[0], functions.y[functions.mask])
    assert (model.x[~model.mask] == 0).all()
    assert (model.y[~model.mask] == 0).all()
    assert model.names == functions.names


def test_a_constant_column_is_not_stretched() -> None:
    functions = ragged([400, 3])
    constant = Functions(
        torch.full_like(functions.x, 0.1), torch.full_like(functions.y, 0.3), functions.mask, functions.names
    )
    units = units_of(constant)
    assert (units.x_shift, units.x_scale, units.y_shift, units.y_scale) == ((0.1,), (1.0,), (0.3,), (1.0,))
    assert (scaled(constant, units).y == 0).all()


def test_a_scaling_of_other_functions_is_refused() -> None:
    with pytest.raises(ValueError, match="the last axis of x must have 1 entries"):
        scaled(ragged([2, 2], dim=2), units_of(ragged([2, 2])))


# Drawing


@pytest.mark.parametrize(
    ("rows", "targets", "most_context"),
    [([5, 9, 2, 1, 7], 4, 3), ([5, 9, 2, 1, 7], 50, None), ([6] * 3, 6, 8), ([3, 30], 2, 0), ([80] * 2, 9, 40)],
)
def test_what_is_drawn_is_rows_of_one_function(rows: list[int], targets: int, most_context: int | None) -> None:
    functions = ragged(rows, dim=2, outputs=2)
    source = TableSource(functions, targets, most_context)
    assert isinstance(source, Source)
    batch = source.draw(500, generator=torch.Generator().manual_seed(0))
    assert batch.num_context == source.num_context
    assert batch.x.shape == (500, source.num_context + source.num_targets, 2)
    assert batch.x.dtype == batch.y.dtype == torch.float64
    drawn: set[int] = set()
    for x, y, mask in zip(batch.x, batch.y, batch.mask, strict=True):
        assert (x[~mask] == 0).all()
        assert (y[~mask] == 0).all()
        place = x[mask][:, 0]
        task = int(place[0])
        row = ((place - task) * 1000).round().long() - 1
        assert torch.equal(x[mask], functions.x[task, row])  # one function, inputs and outputs of the same rows
        assert torch.equal(y[mask], functions.y[task, row])
        assert functions.mask[task, row].all()
        assert len(set(row.tolist())) == len(row)  # no row twice: context and targets are disjoint
        context, target = mask[: source.num_context], mask[source.num_context :]
        size = int(context.sum())
        assert size <= min(source.num_context, rows[task] - 1)
        assert context[:size].all()
        assert int(target.sum()) == min(source.num_targets, rows[task] - size) >= 1
        assert target[: int(target.sum())].all()
        drawn.add(task)
    assert drawn == set(range(len(rows)))


def test_functions_sizes_and_rows_are_uniform() -> None:
    rows, most, draws = [2, 4, 9], 5, 30_000
    batch = TableSource(ragged(rows), targets=3, most_context=most).draw(
        draws, generator=torch.Generator().manual_seed(0)
    )
    first_target = batch.x[:, most, 0]
    tasks = first_target.long()
    sizes = batch.mask[:, :most].sum(1)
    last_rows = ((batch.x[..., 0] - tasks[:, None]) * 1000).round().long()

    def is_share(events: torch.Tensor, share: float) -> bool:
        return abs(events.double().mean().item() - share) < 4.5 * (share * (1 - share) / len(events)) ** 0.5

    for task, count in enumerate(rows):
        own = tasks == task
        assert is_share(own, 1 / len(rows))
        choices = min(most, count - 1) + 1
        for size in range(choices):
            assert is_share(sizes[own] == size, 1 / choices)
        for row in range(1, count + 1):
            assert is_share(last_rows[own, most] == row, 1 / count)
            has_context = own & (sizes > 0)
            assert is_share(last_rows[has_context, 0] == row, 1 / count)


def test_a_generator_decides_the_batch() -> None:
    source = TableSource(ragged([4, 6, 5]))
    first, again, other = (source.draw(8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.mask, again.mask)
    assert not torch.equal(first.x, other.x)


@pytest.mark.parametrize(
    ("rows", "most_context"), [([12] * 5, 6), ([1, 1, 1, 9], 1), ([2, 5, 9], 2), ([3, 4], 1), ([500] * 2, 64)]
)
def test_the_default_context_is_half_of_a_usual_function(rows: list[int], most_context: int) -> None:
    source = TableSource(ragged(rows))
    assert source.num_context == most_context
    assert source.num_targets == min(50, max(rows))


def test_functions_may_be_masked_anywhere() -> None:
    functions = ragged([3, 3])
    flipped = Functions(functions.x.flip(1), functions.y.flip(1), functions.mask.flip(1), functions.names)
    holes = Functions(
        torch.cat([flipped.x, torch.full((2, 2, 1), float("nan"), dtype=torch.float64)], dim=1),
        torch.cat([flipped.y, torch.full((2, 2, 1), float("nan"), dtype=torch.float64)], dim=1),
        torch.cat([flipped.mask, torch.zeros(2, 2, dtype=torch.bool)], dim=1),
        flipped.names,
    )
    source = TableSource(holes)
    assert source.num_targets == 3
    batch = source.draw(100, generator=torch.Generator().manual_seed(0))
    assert torch.isfinite(batch.x).all()
    assert (batch.mask.sum(1) == 3).all()


def test_what_cannot_be_a_source() -> None:
    with pytest.raises(ValueError, match="targets must be at least 1, not 0"):
        TableSource(ragged([2, 2]), targets=0)
    with pytest.raises(ValueError, match="most_context cannot be negative, and is -1"):
        TableSource(ragged([2, 2]), most_context=-1)
    with pytest.raises(ValueError, match="every function needs at least one row"):
        TableSource(ragged([2, 0]))


@pytest.mark.gpu
def test_tasks_are_drawn_on_the_device_of_the_generator() -> None:
    source = TableSource(ragged([4, 6, 5]))
    for _ in range(2):
        batch = source.draw(8, generator=torch.Generator("cuda").manual_seed(0))
        assert batch.x.device.type == batch.y.device.type == batch.mask.device.type == "cuda"
