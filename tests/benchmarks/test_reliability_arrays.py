"""The attempts on arrays hold, and would not with units as they were."""

from pathlib import Path

import pytest
import torch

from benchmarks.reliability.arrays import attempts, nasty_data, posterior_follows, regressor_follows
from benchmarks.reliability.attempts import FULL, QUICK

pytestmark = pytest.mark.usefixtures("as_installed")


def test_odd_arrays_are_answered_or_refused(tmp_path: Path) -> None:
    tried = list(attempts(QUICK, tmp_path))
    assert len(tried) >= 25
    assert {one.name: found for one in tried if (found := one.run())} == {}
    assert sum(1 for _ in attempts(FULL, tmp_path)) >= 500


def test_units_by_plain_squares_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(values: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return values.mean(1, keepdim=True), values.std(1, keepdim=True, correction=0)

    monkeypatch.setattr("ndp.core.units.centre_and_std", plain)
    assert sum(posterior_follows(seed) is not None for seed in range(6)) >= 3
    assert sum(regressor_follows(seed) is not None for seed in range(3)) >= 1
    monkeypatch.setattr(
        "ndp.processes.conditioning.Diffusion.in_precision", lambda self, values, _: values.to(self.dtype)
    )
    assert any(nasty_data(seed) is not None for seed in (16, 44, 46))
