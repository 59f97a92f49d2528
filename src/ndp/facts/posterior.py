"""The posterior given facts: draws, moments and quantiles from weighted particles."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ndp.core.arrays import Context, Form, check_num_samples, read_inputs_for, read_probabilities, read_values
from ndp.core.randomness import seed_from
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments
from ndp.facts.base import Fact, Surroundings
from ndp.facts.density import Answer, log_density_of_each, unwarped, weighted_quantiles
from ndp.facts.joined import JoinedFacts
from ndp.facts.law import Law
from ndp.facts.smc import Particles, systematic, tempered
from ndp.facts.twist import Network, Weighted, given_by_network

PARTICLES = 256
FEWEST = 16
ENOUGH = 64  # effective size below which an answer is warned about, or a quarter of the particles
FRESH = 4  # particles for each draw, at least

NO_DENSITY = 'draws by a network have no density given facts; use a model with GP experts, or the draws of "sample"'


class LittleEvidenceWarning(UserWarning):
    """The particles agree too little with the facts for the answer to be trusted."""


class PosteriorBeneath(ABC):
    """What the posterior without facts must answer."""

    @abstractmethod
    def context_and_form(self) -> tuple[Context, Form]:
        """What was observed, in the user's units, and the form of answers."""

    @abstractmethod
    def reads_noise(self, observation_noise: bool | None) -> bool:
        """Whether new observations are asked for; a ValueError where the model has no such values."""

    @abstractmethod
    def beneath(self, places: Float[Tensor, "P D"], more: Float[Tensor, "M D"], noisy: bool) -> Law | Network:
        """The values at `places` and after them those at `more`, as observed anew where `noisy`."""

    @property
    @abstractmethod
    def separates_noise(self) -> bool:
        """Whether values of the function and new observations are two kinds of values."""


@final
class GivenPosterior(HasMoments):
    """A posterior that knows facts about the function beyond its observations. Immutable.

    Its calls are those of the posterior. Moments, quantiles and `log_evidence` come from the same `num_particles` particles
    at every call; `sample` makes its own, four a draw or more. Hard facts hold exactly in all of them. Facts speak of the
    function, or of the one kind of values that a model has.
    """

    def __init__(self, process: PosteriorBeneath, facts: Sequence[Fact], num_particles: int = PARTICLES) -> None:
        self._process, self._facts = process, tuple(facts)
        self._num_particles = _read_particles(num_particles)
        self._context, self._form = process.context_and_form()
        if len(self._context.x) != 1:
            raise ValueError(f"facts are about one function, and the posterior is of {len(self._context.x)} tasks")
        if self._context.y.shape[-1] != 1:
            raise ValueError(
                f"facts are for values of one number, and this model has {self._context.y.shape[-1]} outputs"
            )
        self._joined(self._context.x[0, :0]).check_consistent()
        self._last: dict[object, Answer] = {}

    def given(self, *facts: Fact, num_particles: int | None = None) -> "GivenPosterior":
        """The posterior given more facts."""
        return GivenPosterior(self._process, (*self._facts, *facts), num_particles or self._num_particles)

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`, [S B M P]: functions that agree with all facts or, with `joint=False`, every value by itself."""
        count = check_num_samples(num_samples)
        own = torch.Generator().manual_seed(seed_from(generator))
        answer = self._answer(x, observation_noise, max(self._num_particles, FRESH * count), own)
        if joint:
            chosen = systematic(answer.weighted.log_weight, own, count)
            draws = answer.values[chosen[torch.randperm(count, generator=own)]]
        else:
            weights = torch.softmax(answer.weighted.log_weight, 0)
            picked = torch.multinomial(weights, count * answer.values.shape[1], replacement=True, generator=own)
            draws = answer.values.gather(0, picked.reshape(count, -1))
        draws = draws[:, None, :, None].to(self._context.x.device)
        return self._form_for(x).give(draws if num_samples is not None else draws[0])

    def moments(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Moments:
        """Mean and standard deviation at every point; the same at every call, and for joint and independent values."""
        return self.summary(x, (), joint=joint, observation_noise=observation_noise)[0]

    def quantiles(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> Array:
        """Quantiles at every point, [Q B M P]."""
        asked = read_probabilities(probabilities, torch.zeros((), dtype=torch.float64))
        return self.summary(x, asked.tolist(), joint=joint, observation_noise=observation_noise)[1]

    def summary(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> tuple[Moments, Array]:
        """Moments and quantiles, at the price of one of them."""
        answer = self._answer(x, observation_noise, self._num_particles, None)
        weight = torch.softmax(answer.weighted.log_weight, 0)
        mean = weight @ answer.values
        std = (weight @ (answer.values - mean).square()).sqrt()
        asked = read_probabilities(probabilities, mean) if len(probabilities) else mean.new_zeros(0)
        quantiles = weighted_quantiles(answer.values, weight, asked)
        parts = (mean[None, :, None], std[None, :, None], quantiles[:, None, :, None])
        mean, std, quantiles = (self._form_for(x).give(part.to(self._context.x.device)) for part in parts)  # type: ignore[assignment]
        return Moments(mean, std), quantiles

    def log_prob(self, x: Array, y: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Array:
        """Log-density of the values `y` at `x` in nats: [B] of all together, [B M P] of each by itself.

        For exact GPs, their mixtures and models with GP experts. Of all values together it is log p(y) + log p(facts given y) -
        log p(facts), where facts without places hold at the default ones. Of each value it is a mean over particles, of the
        density given the values at the places of the facts, widened to a kernel estimate where that is narrow.
        """
        inputs = read_inputs_for(self._context, x)
        values = read_values(y, "y", inputs, num_outputs=1, batched=self._form.batched)[0, :, 0].cpu()
        device = self._context.x.device
        if joint:
            log_p = self._joint_log_prob(inputs[0].double(), values, observation_noise)
            return self._form.give_per_task(torch.tensor([log_p], dtype=torch.float64, device=device))
        answer = self._answer(x, observation_noise, self._num_particles, None)
        if answer.law is None or answer.particles is None:
            raise ValueError(NO_DENSITY)
        return self._form.give(log_density_of_each(answer, values)[None, :, None].to(device))

    @torch.no_grad()
    def _joint_log_prob(
        self, inputs: Float[Tensor, "M D"], values: Float[Tensor, "M"], observation_noise: bool | None
    ) -> float:
        """log p(y) + log p(facts given y) - log p(facts)."""
        facts = self._joined(inputs[:0])
        noisy = self._process.reads_noise(observation_noise) and self._process.separates_noise
        law, at = self._beneath(facts.places, inputs.cpu(), noisy)
        if isinstance(law, Network):
            raise ValueError(NO_DENSITY)
        u, log_slope = unwarped(law, values, at)
        given, log_p = law.measured(torch.eye(law.mean.shape[1], dtype=torch.float64)[at], u, torch.zeros_like(u))
        evidences = [
            _told(one, facts, self._num_particles, torch.Generator().manual_seed(0))[1].log_evidence
            for one in (given, law)
        ]
        return log_p + log_slope.sum().item() + evidences[0] - evidences[1]

    def log_evidence(self, x: Array | None = None, *, generator: torch.Generator | None = None) -> float:
        """The log-probability of the facts under the posterior without them, or their log-density.

        Facts without places of their own speak of the default places, and of `x` where it is given. With a `generator` the
        estimate has particles of its own.
        """
        return self._answer(x, None, self._num_particles, generator, warn=False).weighted.log_evidence

    def effective_sample_size(self, x: Array | None = None) -> float:
        """How many independent draws the particles of moments and quantiles are worth."""
        return self._answer(x, None, self._num_particles, None, warn=False).weighted.effective

    def _form_for(self, x: Array) -> Form:
        """The form of the context or, without observations, that of the inputs asked for."""
        numpy = self._form.numpy if self._context.x.shape[1] else not isinstance(x, Tensor)
        return replace(self._form, numpy=numpy)

    def _joined(self, asked: Float[Tensor, "M D"]) -> JoinedFacts:
        observed = self._context.x[0][self._context.mask[0]]
        noisy = not self._process.separates_noise
        return JoinedFacts.of(self._facts, Surroundings(observed.double(), asked.double(), noisy))

    def _answer(
        self,
        x: Array | None,
        observation_noise: bool | None,
        num_particles: int,
        generator: torch.Generator | None,
        *,
        warn: bool = True,
    ) -> Answer:
        inputs = self._context.x[0, :0] if x is None else read_inputs_for(self._context, x)[0]
        noisy = self._process.reads_noise(observation_noise) and self._process.separates_noise
        key = inputs.cpu().numpy().tobytes(), noisy
        if generator is None and key in self._last:
            answer = self._last[key]
        else:
            own = torch.Generator().manual_seed(0) if generator is None else generator
            answer = self._run(inputs.double(), noisy, num_particles, own)
            if generator is None:
                self._last = {key: answer}
        effective = answer.weighted.effective
        if warn and effective < min(ENOUGH, num_particles / 4):
            warnings.warn(
                f"{num_particles} particles are worth {effective:.0f} independent draws: the facts leave little of what was "
                f"likely before. Raise num_particles, or state the facts at fewer places",
                LittleEvidenceWarning,
                stacklevel=4,
            )
        return answer

    @torch.no_grad()
    def _run(self, inputs: Float[Tensor, "M D"], noisy: bool, num_particles: int, generator: torch.Generator) -> Answer:
        facts = self._joined(inputs)
        if len(inputs):
            facts.check_consistent()
        count = len(facts.places)
        beneath, at = self._beneath(facts.places, inputs.cpu(), noisy)
        if isinstance(beneath, Network):
            weighted = given_by_network(beneath, facts, num_particles, generator)
            return Answer(self._moved(weighted.values[:, at], inputs), weighted, None, None, at, count)
        law, told = _told(beneath, facts, num_particles, generator)
        values = torch.cat([told.values, _values_at_more(law, told, generator)], dim=1)
        weighted = Weighted(values, values.new_zeros(num_particles), told.log_evidence, told.effective)
        found = values[:, at] if noisy else self._moved(values[:, at], inputs)
        return Answer(found, weighted, law, told, at, count)

    def _moved(self, values: Float[Tensor, "S M"], inputs: Float[Tensor, "M D"]) -> Float[Tensor, "S M"]:
        """The values, for which facts without places of their own hold at all of many inputs."""
        for fact in self._facts:
            values = fact.moved(values, inputs.cpu())
        return values

    def _beneath(
        self, places: Float[Tensor, "P D"], asked: Float[Tensor, "M D"], noisy: bool
    ) -> tuple[Law | Network, Int[Tensor, "M"]]:
        """The law of values at places and at what is asked for, and where each of the latter is among all of them.

        Values of the function that are asked for at places are those of the places.
        """
        count = len(places)
        at = torch.arange(count, count + len(asked))
        if not noisy and count:
            same = (asked[:, None] == places).all(-1)
            new = ~same.any(1)
            at = same.double().argmax(1)
            at[new] = count + torch.arange(int(new.sum()))
            asked = asked[new]
        device = self._context.x.device
        return self._process.beneath(places.to(device), asked.to(device), noisy), at


def _told(law: Law, facts: JoinedFacts, num_particles: int, generator: torch.Generator) -> tuple[Law, Particles]:
    """The law with its first values in the order of the noise of particles, and these: Gaussian facts in closed form."""
    density, count = 0.0, len(facts.places)
    if law.warp is None and len(facts.value):
        more = torch.zeros(len(facts.value), law.mean.shape[1] - count, dtype=torch.float64)
        law, density = law.measured(torch.cat([facts.weights, more], dim=1), facts.value, facts.noise)
        facts = facts.without_measurements()
    told = tempered(law.leading(count), facts, num_particles, generator)
    return _ordered(law, told.order), replace(told, log_evidence=told.log_evidence + density)


def _ordered(law: Law, order: Int[Tensor, "P"]) -> Law:
    """The law of Gaussian values whose first ones stand in the order of the noise beneath; the warp keeps the old order."""
    every = torch.cat([order, torch.arange(len(order), law.mean.shape[1])])
    return Law(law.log_weight, law.mean[:, every], law.covariance[:, every][:, :, every], law.warp)


def _values_at_more(law: Law, told: Particles, generator: torch.Generator) -> Float[Tensor, "S M"]:
    """Values at inputs that are no places of facts, given those at places."""
    count = told.normal.shape[1]
    more = law.mean.shape[1] - count
    if not more:
        return told.values[:, :0]
    fresh = torch.randn(len(told.normal), more, generator=generator, dtype=torch.float64)
    plain = Law(law.log_weight, law.mean, law.covariance)
    u = plain.values(told.index, torch.cat([told.normal, fresh], dim=1))
    return u[:, count:] if law.warp is None else law.warp(u)[:, count:]


def _read_particles(num_particles: int) -> int:
    count = check_num_samples(num_particles)
    if count < FEWEST:
        raise ValueError(f"num_particles must be at least {FEWEST}, not {count}; {PARTICLES} is the default")
    return count


def nothing_observed(facts: Sequence[Fact], default: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """An empty context of as many inputs as the facts' places have."""
    dims = {fact.dim for fact in facts if isinstance(fact, Fact)} - {None}
    dim = next(iter(dims), default)
    assert dim is not None
    return np.zeros((0, dim)), np.zeros(0)
