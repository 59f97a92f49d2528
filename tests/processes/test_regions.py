"""Regions of a large table."""

import torch

from ndp.processes.regions import ROWS_IN_CONTEXT, ROWS_OF_REGION, Regions, nearest_to_any


def normals(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_few_rows_are_one_region_with_all_of_them() -> None:
    x = normals(ROWS_IN_CONTEXT, 3)
    regions = Regions.of(x)
    assert regions.rows.tolist() == [list(range(ROWS_IN_CONTEXT))]
    assert regions.find(x).unique().tolist() == [0]


def test_regions_halve_the_rows_and_take_the_nearest_for_context() -> None:
    x = normals(1000, 3)
    regions = Regions.of(x)
    found = regions.find(x)
    sizes = found.bincount()
    assert len(sizes) == len(regions.rows) == 8
    assert sizes.min() == sizes.max() == 125
    for region, rows in enumerate(regions.rows):
        middle = x[found == region].mean(0)
        distance = (x - middle).norm(dim=1)
        others = torch.ones(len(x), dtype=torch.bool)
        others[rows] = False
        assert distance[rows].max() <= distance[others].min()


def test_the_order_of_rows_changes_no_region() -> None:
    x = normals(700, 2).round(decimals=1)  # with ties
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    one, other = Regions.of(x), Regions.of(x[order])
    places = normals(50, 2)
    torch.testing.assert_close(one.find(places), other.find(places))


def test_rows_that_cannot_be_told_apart_share_a_region() -> None:
    x = torch.cat([torch.zeros(500, 1, dtype=torch.float64), torch.ones(100, 1, dtype=torch.float64)])
    regions = Regions.of(x)
    assert regions.find(x).bincount().tolist() == [100, 500] or regions.find(x).bincount().tolist() == [500, 100]
    assert len(regions.rows) == 2
    assert Regions.of(torch.zeros(500, 2, dtype=torch.float64)).rows.shape == (1, ROWS_IN_CONTEXT)
    assert ROWS_OF_REGION < ROWS_IN_CONTEXT


def test_the_rows_nearest_to_any_place() -> None:
    x = torch.arange(10, dtype=torch.float64)[:, None]
    places = torch.tensor([[0.0], [7.1]], dtype=torch.float64)
    assert nearest_to_any(x, places, 4).tolist() == [0, 1, 7, 8]
