"""Batches of tasks: their layout, and that they are a function of the generator alone."""

import math

import torch
from torch import Tensor

import ndp
from ndp.priors.tasks import Synthetic


class Identity:
    """A prior that answers with the sum of its inputs."""

    def sample(self, x: Tensor, num_samples: int | None = None, *, generator: torch.Generator | None = None) -> Tensor:
        return x.sum(-1, keepdim=True)


def test_places_for_context_are_filled_from_the_front_by_a_uniform_number() -> None:
    source = Synthetic(Identity(), dim=2, targets=3, most_context=4, least_context=1)
    batch = source.draw(8000, generator=torch.Generator().manual_seed(0))
    assert batch.num_context == 4
    assert batch.mask[:, 4:].all()
    sizes = batch.mask[:, :4].sum(1)
    for size in (1, 2, 3, 4):
        assert abs((sizes == size).double().mean().item() - 0.25) < 0.022
    assert (batch.mask[:, :4].long().diff(dim=1) <= 0).all()
    torch.testing.assert_close(batch.y, batch.x.sum(-1, keepdim=True))
    assert -2 <= batch.x.min() < -1.99
    assert 1.99 < batch.x.max() <= 2


def test_the_number_of_targets_can_vary() -> None:
    source = Synthetic(Identity(), targets=4, most_context=2, least_targets=1)
    batch = source.draw(8000, generator=torch.Generator().manual_seed(0))
    sizes = batch.mask[:, 2:].sum(1)
    for size in (1, 2, 3, 4):  # as likely as the logarithm's range from it to the next
        expected = math.log((size + 1) / size) / math.log(5)
        assert abs((sizes == size).double().mean().item() - expected) < 0.022


def test_a_generator_decides_the_tasks() -> None:
    source = Synthetic(ndp.load("gp-se"), targets=3, most_context=2)
    first, again, other = (source.draw(2, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.y, again.y)
    assert not torch.equal(first.y, other.y)


def test_a_prior_of_the_wrong_shape_is_told_plainly() -> None:
    import pytest

    class Wrong(Identity):
        def sample(self, x: Tensor, num_samples: int | None = None, *, generator: object = None) -> Tensor:
            return x.sum(-1)

    with pytest.raises(ValueError, match=r"must answer inputs \[2, 5, 1\]"):
        Synthetic(Wrong(), targets=3, most_context=2).draw(2, generator=torch.Generator())
