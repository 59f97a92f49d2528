"""An NDP as a BoTorch model, in place of `SingleTaskGP` and without a fit.

A posterior is a deterministic, differentiable map from noise, BoTorch's base samples, to function values. Monte Carlo
acquisitions, Thompson sampling, joint batches, pending points and gradients therefore work as they do for a GP.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import IIDNormalSampler
from jaxtyping import Float, Int
from torch import Tensor

from ndp.core.randomness import fresh_generator, match_moments, normal
from ndp.core.units import Units, box_units
from ndp.models.registry import models_for
from ndp.processes.ndp import NDP
from ndp.processes.posterior import NDPPosterior

STEPS = 10  # network calls a draw
MOMENT_DRAWS = 64


class NDPModel(Model):
    """An NDP given observations `train_Y` [..., n, 1] at `train_X` [..., n, d]. Leading axes are independent models.

    Parameters
    ----------
    ndp
        The NDP, such as `ndp.load("universal")`.
    train_X, train_Y
        The observations.
    bounds
        The box of the search [2, d], mapped to the `domain`. Without bounds, inputs are in the NDP's units already.
    domain
        The interval to which every input is mapped: the range of inputs that the NDP was trained on.
    standardise
        Whether the NDP sees outcomes of mean 0 and standard deviation 1, as it should unless they are in its units already.
    steps
        Network calls a draw.
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
        whole_domain = torch.tensor(domain, dtype=torch.float64)[:, None].expand(2, train_X.shape[-1])
        low, high = (whole_domain if bounds is None else bounds).to(train_X.device)
        outcomes = train_Y.detach().reshape(self.batch_shape.numel(), *train_Y.shape[-2:])
        units = _stack([box_units(low, high, y, domain) for y in outcomes])
        if not standardise:
            shift, scale = torch.zeros_like(units.y_shift), torch.ones_like(units.y_scale)
            units = replace(units, y_shift=shift, y_scale=scale)
        self._units, self._units_batch = units, self.batch_shape

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
        """The joint posterior at `X` [..., q, d].

        `observation_noise=True` is the posterior of new observations. `observation_noise=False`, which is BoTorch's default,
        is the posterior of the function, where the NDP separates it from its noise, as `universal` does. Other NDPs have one
        kind of values, which carry the noise of the functions that they were trained on; these have the same posterior in both
        cases. A tensor of noise variances is refused.
        """
        if output_indices not in (None, [0]):
            raise ValueError(f"there is one output, number 0; output_indices is {output_indices}")
        if not isinstance(observation_noise, bool):
            raise ValueError(
                "observation_noise must be True or False: an NDP has learned its noise, and variances cannot be added to it"
            )
        batch = torch.broadcast_shapes(self.batch_shape, X.shape[:-2])
        posterior = NDPModelPosterior(self, X.expand(*batch, *X.shape[-2:]), observation_noise=observation_noise)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **options: Any) -> "NDPModel":  # noqa: N803
        """A new model with further observations, in units of all observations."""
        if options.get("noise") is not None:
            raise ValueError("observations of an NDPModel have no noise variances of their own; leave noise out")
        points = X.reshape(-1, X.shape[-1]) if X.ndim < 2 else X
        return self._with(points, Y.reshape(*points.shape[:-1], 1))

    def fantasize(
        self,
        X: Tensor,  # noqa: N803
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        **options: Any,
    ) -> "NDPModel":
        """Models [S, ...], each with one draw of new observations at `X` [..., q, d], in units of the real observations."""
        if observation_noise is not None:
            raise ValueError("observation_noise cannot be set: fantasies are observations with the noise of the NDP")
        fantasies = self._with(X, sampler(self.posterior(X, observation_noise=True)))
        fantasies._units, fantasies._units_batch = self._units, self._units_batch
        return fantasies

    def units_for(self, batch: torch.Size) -> Units:
        """The units of models of shape `batch`, one row for each."""

        def rows(values: Float[Tensor, "T 1 K"]) -> Float[Tensor, "B 1 K"]:
            last = values.shape[-1]
            return values.reshape(*self._units_batch, 1, last).expand(*batch, 1, last).reshape(batch.numel(), 1, last)

        units = self._units
        return Units(rows(units.x_shift), rows(units.x_scale), rows(units.y_shift), rows(units.y_scale))

    def _with(self, x: Tensor, y: Tensor) -> "NDPModel":
        """The same model with observations `y` [..., q, 1] at `x` [..., q, d] added."""
        known_x, known_y = self.train_inputs[0], self.train_targets[..., None]
        batch = torch.broadcast_shapes(self.batch_shape, x.shape[:-2], y.shape[:-2])

        def joined(known: Tensor, new: Tensor) -> Tensor:
            return torch.cat([each.expand(*batch, *each.shape[-2:]) for each in (known, new.to(known))], dim=-2)

        return NDPModel(
            self.ndp,
            joined(known_x, x),
            joined(known_y, y),
            bounds=self.bounds,
            domain=self.domain,
            standardise=self.standardise,
            steps=self.steps,
        )


class NDPModelPosterior(Posterior):
    """Values at the points `X` as a function of base samples. The observations are encoded once."""

    def __init__(self, model: NDPModel, X: Tensor, *, observation_noise: bool) -> None:  # noqa: N803
        self._model = model
        self.X = X
        # BoTorch's default, False, must work for models that have one kind of values: it is our default, None.
        self._observation_noise = True if observation_noise else None

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
        return self._moments[0]

    @property
    def variance(self) -> Tensor:
        return self._moments[1]

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008
        return torch.Size(sample_shape) + self.event_shape

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        shape = torch.Size((1,)) if sample_shape is None else sample_shape
        noise = normal(tuple(shape + self.base_sample_shape), fresh_generator(), like=self.X)
        return self.rsample_from_base_samples(shape, noise)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        """One function for each sample, through all points of `X`. Where points coincide, so do their values."""
        full = self._extended_shape(sample_shape)
        noise = base_samples.expand(full).reshape(sample_shape.numel(), -1, *full[-2:])
        x = self.X.reshape(self.X.shape[:-2].numel(), *self.X.shape[-2:])
        drawn = self._conditioned.sample(
            self._units.to_model_x(x),
            len(noise),
            observation_noise=self._observation_noise,
            dependence="network",  # which has gradients
            steps=self._model.steps,
            base_noise=noise,
        )
        values = self._units.from_model_y(torch.as_tensor(drawn).to(self.device)).to(self.dtype)
        index = _first_occurrence(x.detach()).expand(len(noise), *x.shape[:-1])[..., None]
        return values.gather(2, index).reshape(full)

    @cached_property
    def _units(self) -> Units:
        return self._model.units_for(self.X.shape[:-2])

    @cached_property
    def _conditioned(self) -> NDPPosterior:
        """The posterior of the NDP in its own units, one task for each set of points in `X`."""
        x, y = self._model.train_inputs[0], self._model.train_targets[..., None]
        batch = self.X.shape[:-2]
        each_x, each_y = (
            known.expand(*batch, *known.shape[-2:]).reshape(batch.numel(), *known.shape[-2:]).to(self.device)
            for known in (x, y)
        )
        return self._model.ndp.condition(self._units.to_model_x(each_x), self._units.to_model_y(each_y))

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of draws of moment-matched noise."""
        shape = (MOMENT_DRAWS, self.X.shape[:-2].numel(), self.X.shape[-2], 1)
        noise = match_moments(normal(shape, torch.Generator().manual_seed(0), like=self.X))
        size = torch.Size((MOMENT_DRAWS,))
        draws = self.rsample_from_base_samples(size, noise.reshape(size + self.base_sample_shape))
        return draws.mean(0), draws.var(0, correction=0)


@GetSampler.register(NDPModelPosterior)  # type: ignore[untyped-decorator]
def _sampler(posterior: NDPModelPosterior, sample_shape: torch.Size, *, seed: int | None = None) -> IIDNormalSampler:
    return IIDNormalSampler(sample_shape=sample_shape, seed=seed)


def _stack(each: Sequence[Units]) -> Units:
    """The units of several tasks, one row for each."""
    return Units(*(torch.cat([getattr(one, part.name) for one in each]) for part in fields(Units)))


def _first_occurrence(x: Float[Tensor, "B q d"]) -> Int[Tensor, "B q"]:
    """For every point, the index of the first point in its batch that is the same."""
    same = (x[:, :, None] == x[:, None]).all(-1)
    return same.to(torch.uint8).argmax(-1)


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
