"""Curves through points, and inverses."""

import torch

from ndp.core.increasing import IncreasingCurve, invert_increasing

PLACES = torch.tensor([-2.3, -0.7, 0.0, 0.7, 2.3], dtype=torch.float64)
X = torch.linspace(-5, 5, 41, dtype=torch.float64)


def test_a_line_is_a_line_everywhere() -> None:
    lines = torch.stack([0.3 * PLACES - 1, 7 * PLACES], dim=1)
    curve = IncreasingCurve(PLACES, lines)
    found = curve(X[:, None].expand(-1, 2))
    torch.testing.assert_close(found, torch.stack([0.3 * X - 1, 7 * X], dim=1), rtol=1e-12, atol=1e-12)


def test_it_goes_through_the_points_and_never_decreases() -> None:
    values = torch.tensor([0.0, 0.0, 0.2, 5.0, 5.1], dtype=torch.float64)
    curve = IncreasingCurve(PLACES, values)
    torch.testing.assert_close(curve(PLACES), values)
    fine = curve(torch.linspace(-6, 6, 5001, dtype=torch.float64))
    assert (fine.diff() >= -1e-12).all()


def test_it_is_near_a_smooth_function() -> None:
    found = IncreasingCurve(PLACES, torch.sinh(0.5 * PLACES))(X[X.abs() < 2.3])
    assert (found - torch.sinh(0.5 * X[X.abs() < 2.3])).abs().max() < 0.03


def test_an_inverse_is_found() -> None:
    far = torch.full_like(X, 20.0)
    curve = IncreasingCurve(PLACES, torch.sinh(0.5 * PLACES))
    torch.testing.assert_close(invert_increasing(curve, curve(X), -far, far), X, rtol=0, atol=1e-9)
