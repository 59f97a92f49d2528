"""BoTorch's GP as a process: what it answers is what BoTorch answers."""

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from ndp.core.typing import Process
from ndp.processes.refitted_gp import RefittedGP


def data() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, new = (2 * torch.rand(n, 2, generator=generator, dtype=torch.float64) - 1 for n in (12, 5))
    y = torch.sin(3 * x).sum(-1)
    return x, (y - y.mean()) / y.std(), new


def test_it_is_botorchs_gp() -> None:
    x, y, new = data()
    process = RefittedGP()
    assert isinstance(process, Process)
    posterior = process.condition(x, y)
    expected = SingleTaskGP((x + 1) / 2, y[:, None], outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(expected.likelihood, expected))
    law = expected.posterior((new + 1) / 2)
    mean, std = (torch.as_tensor(moment) for moment in posterior.moments(new))
    torch.testing.assert_close(mean, law.mean[:, 0].detach(), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(std, law.variance[:, 0].detach().sqrt(), atol=1e-2, rtol=1e-2)
    draws = torch.as_tensor(posterior.sample(new, 2000, generator=torch.Generator().manual_seed(1)))
    torch.testing.assert_close(draws.mean(0), mean, atol=float(5 * std.max() / 2000**0.5), rtol=0)
    torch.testing.assert_close(draws.std(0), std, atol=1e-3, rtol=0.1)
    low, high = torch.as_tensor(posterior.quantiles(new, [0.1, 0.9]))
    assert ((low < mean) & (mean < high)).all()
    assert posterior.log_prob(new, mean) > posterior.log_prob(new, mean + std)


def test_every_task_has_a_fit_of_its_own() -> None:
    x, y, new = data()
    both = RefittedGP().condition(torch.stack([x, x]), torch.stack([y, -y]))
    mean, _ = both.moments(new[None])
    torch.testing.assert_close(torch.as_tensor(mean[0]), -torch.as_tensor(mean[1]), atol=2e-3, rtol=1e-2)


def test_what_it_cannot_do_is_told_plainly() -> None:
    x, y, new = data()
    with pytest.raises(ValueError, match="at least one observation"):
        RefittedGP().sample(new)
    with pytest.raises(ValueError, match="cannot be told"):
        RefittedGP().condition(x, y, noise=0.1)
