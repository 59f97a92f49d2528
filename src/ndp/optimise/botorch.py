"""An NDP as a BoTorch model: swap it for `SingleTaskGP`, and nothing is fitted.

A posterior is a deterministic, differentiable map from noise to function values, which is what BoTorch calls base samples. So
Monte Carlo acquisitions, Thompson sampling, joint batches, pending points and gradients work as they do for a GP.
"""

from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import IIDNormalSampler
from torch import Tensor

from ndp.core.randomness import fresh_generator, match_moments, normal
from ndp.models.registry import models_for
from ndp.processes.ndp import NDP

STEPS = 10  # network calls a draw
MOMENT_DRAWS = 64


class NDPModel(Model):
    """Observations `train_Y` [..., n, 1] at `train_X` [..., n, d] under an NDP; leading axes are models of their own.

    `bounds` [2, d] are those of the search, and are mapped to the `domain` that the NDP was trained on; without them inputs are
    taken as they are. Outcomes are standardised by those observed, so that an NDP of unit variance fits any scale.
    """

    num_outputs = 1

    def __init__(
        self,
        ndp: NDP,
        train_X: Tensor,  # noqa: N803
        train_Y: Tensor,  # noqa: N803
        *,
        bounds: Tensor | None = None,
        domain: tuple[float, float] = (-1.0, 1.0),
        standardise: bool = True,
        steps: int = STEPS,
    ) -> None:
        super().__init__()
        _check(ndp, train_X, train_Y, bounds)
        self.ndp = ndp
        self.train_inputs = (train_X,)
        self.train_targets = train_Y[..., 0]
        self.bounds, self.domain = bounds, domain
        self.standardise, self.steps = standardise, steps
        self.centre, self.scale = _centre_and_scale(train_Y) if standardise else (0.0, 1.0)

    @property
    def batch_shape(self) -> torch.Size:
        return self.train_inputs[0].shape[:-2]

    def posterior(
        self,
        X: Tensor,  # noqa: N803
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> "NDPModelPosterior":
        """The joint posterior of the function at `X` [..., q, d]. `observation_noise` is what the NDP's functions carry."""
        if output_indices not in (None, [0]):
            raise ValueError(f"there is one output, number 0; output_indices is {output_indices}")
        batch = torch.broadcast_shapes(self.batch_shape, X.shape[:-2])
        posterior = NDPModelPosterior(self, X.expand(*batch, *X.shape[-2:]))
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **options: Any) -> "NDPModel":  # noqa: N803
        """The same model with more observations: a new one, made in no time."""
        known = self.train_inputs[0]
        return NDPModel(
            self.ndp,
            torch.cat([known, X.reshape(-1, X.shape[-1]).to(known)]),
            torch.cat([self.train_targets[:, None], Y.reshape(-1, 1).to(known)]),
            bounds=self.bounds,
            domain=self.domain,
            standardise=self.standardise,
            steps=self.steps,
        )

    def fantasize(
        self,
        X: Tensor,  # noqa: N803
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        **options: Any,
    ) -> "NDPModel":
        """Models [S, ...], each with one draw of the values at `X` [..., q, d] as further observations."""
        drawn = sampler(self.posterior(X))
        x, y = self.train_inputs[0], self.train_targets[..., None]
        batch = drawn.shape[:-2]
        imagined = NDPModel(
            self.ndp,
            torch.cat([x.expand(*batch, *x.shape[-2:]), X.expand(*batch, *X.shape[-2:])], dim=-2),
            torch.cat([y.expand(*batch, *y.shape[-2:]), drawn], dim=-2),
            bounds=self.bounds,
            domain=self.domain,
            steps=self.steps,
        )
        imagined.centre, imagined.scale = self.centre, self.scale  # the units of what was really observed
        return imagined

    def to_domain(self, X: Tensor) -> Tensor:  # noqa: N803
        """Inputs in the units of the NDP."""
        if self.bounds is None:
            return X
        low, high = self.bounds.to(X)
        return self.domain[0] + (self.domain[1] - self.domain[0]) * (X - low) / (high - low)


class NDPModelPosterior(Posterior):
    """Function values at the points `X` as a function of base samples."""

    def __init__(self, model: NDPModel, X: Tensor) -> None:  # noqa: N803
        self._model = model
        self.X = X

    @property
    def device(self) -> torch.device:
        return self.X.device

    @property
    def dtype(self) -> torch.dtype:
        return self.X.dtype

    @property
    def event_shape(self) -> torch.Size:
        return torch.Size((*self.X.shape[:-1], 1))

    @property
    def base_sample_shape(self) -> torch.Size:
        return self.event_shape

    @property
    def batch_range(self) -> tuple[int, int]:
        return (0, -2)

    @property
    def mean(self) -> Tensor:
        return self._moment_draws().mean(0)

    @property
    def variance(self) -> Tensor:
        return self._moment_draws().var(0, correction=0)

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008
        return torch.Size(sample_shape) + self.event_shape

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        shape = torch.Size((1,)) if sample_shape is None else sample_shape
        noise = normal(tuple(shape + self.base_sample_shape), fresh_generator(), like=self.X)
        return self.rsample_from_base_samples(shape, noise)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        """One function for each sample, through all points of `X`; where points coincide so do their values."""
        model = self._model
        full = self._extended_shape(sample_shape)
        noise = base_samples.expand(full).reshape(sample_shape.numel(), -1, *full[-2:])
        x = model.to_domain(self.X).reshape(-1, *self.X.shape[-2:])
        first = _first_occurrence(x.detach())
        context_x = self._for_every_batch(model.to_domain(model.train_inputs[0])).to(x)
        context_y = self._for_every_batch(((model.train_targets - model.centre) / model.scale)[..., None]).to(x)
        posterior = model.ndp.condition(context_x, context_y)
        drawn = torch.as_tensor(
            posterior.sample(x, len(noise), steps=model.steps, base_noise=noise.to(model.ndp.dtype))
        ).to(self.X)
        index = first.expand(len(noise), *first.shape)[..., None]
        return (model.centre + model.scale * drawn.gather(2, index)).reshape(full)

    def _for_every_batch(self, known: Tensor) -> Tensor:
        return known.expand(*self.X.shape[:-2], *known.shape[-2:]).reshape(-1, *known.shape[-2:])

    def _moment_draws(self) -> Tensor:
        shape = (MOMENT_DRAWS, self.X.shape[:-2].numel(), self.X.shape[-2], 1)
        noise = match_moments(normal(shape, torch.Generator().manual_seed(0), like=self.X))
        size = torch.Size((MOMENT_DRAWS,))
        return self.rsample_from_base_samples(size, noise.reshape(size + self.base_sample_shape))


@GetSampler.register(NDPModelPosterior)  # type: ignore[untyped-decorator]
def _sampler(posterior: NDPModelPosterior, sample_shape: torch.Size, *, seed: int | None = None) -> IIDNormalSampler:
    return IIDNormalSampler(sample_shape=sample_shape, seed=seed)


def _first_occurrence(x: Tensor) -> Tensor:
    """For every point of [B q d], the index of the first point in its batch that is the same."""
    same = (x[:, :, None] == x[:, None]).all(-1)
    return same.to(torch.uint8).argmax(-1)


def _centre_and_scale(y: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of outcomes; a constant, or a single one, has scale 1."""
    scale = y.std().item() if y.numel() > 1 else 0.0
    return (y.mean().item() if y.numel() else 0.0), (scale if scale > 1e-12 else 1.0)


def _check(ndp: NDP, x: Tensor, y: Tensor, bounds: Tensor | None) -> None:
    if x.ndim < 2 or y.shape != (*x.shape[:-1], 1):
        raise ValueError(f"train_X must be [n, d] and train_Y [n, 1]; they are {list(x.shape)} and {list(y.shape)}")
    if not bool(torch.isfinite(x).all() and torch.isfinite(y).all()):
        raise ValueError("train_X or train_Y holds NaN or infinity; leave such observations out")
    dim = x.shape[-1]
    if ndp.input_dims is not None and dim not in ndp.input_dims:
        dims = ", ".join(map(str, ndp.input_dims))
        raise ValueError(
            f"this NDP was trained for functions of {dims} inputs, and train_X has {dim}; {models_for(dim)}"
        )
    if bounds is not None:
        if bounds.shape != (2, dim):
            raise ValueError(f"bounds must be [2, {dim}], lower above upper; their shape is {list(bounds.shape)}")
        if not bool((bounds[0] < bounds[1]).all()):
            raise ValueError("every lower bound must be below its upper bound")
