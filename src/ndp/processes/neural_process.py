"""A neural process as a Process: condition, sample, moments, quantiles, log_prob, and the loss that it is trained with."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ndp.core.arrays import (
    Context,
    Form,
    check_num_samples,
    empty_context,
    form_of_inputs,
    read_context,
    read_inputs,
    read_inputs_for,
    read_observation_noise,
    read_probabilities,
    read_target_values,
)
from ndp.core.io.checkpoint import load_weights
from ndp.core.randomness import read_generator, seed_from
from ndp.core.statistics import HasMoments
from ndp.core.typing import Array, Moments
from ndp.diffusion.objective import Objective, StepInputs, TrainingSupport
from ndp.gp.exact import GP
from ndp.networks.shapes import NoMoreThan
from ndp.priors.tasks import Batch, Source
from ndp.processes.architectures import Kind, WithoutWaiting, construct, decisions, on_device, package
from ndp.processes.description import read_about

LATENT_DRAWS = 512  # latent variables that a likelihood or a moment is averaged over
ELBO_DRAWS = 5
DRAWS_AT_ONCE = 16  # always, so that the first draws are the same however many are asked for


@final
class NeuralProcess:
    """A network of the package `neuralprocesses` for functions of `dim` inputs and one output.

    Like the exact GP it predicts observations, noise included, and takes those that it is given as they are.
    """

    num_outputs = 1

    def __init__(
        self,
        kind: Kind | str,
        dim: int,
        *,
        options: dict[str, Any] | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.kind = Kind(kind)
        self.dim = dim
        self.options = {} if options is None else options
        self.network: nn.Module = construct(self.kind, dim, self.options)
        self.about = read_about(about)
        self._decisions = decisions()

    def config(self) -> dict[str, Any]:
        """The description from which `from_config` makes this model again, without `about`."""
        network = {"kind": str(self.kind), "dim": self.dim, "options": self.options}
        return {"network": network, "input_dims": self.input_dims}

    @staticmethod
    def from_config(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> "NeuralProcess":
        """The model of a description and its weights."""
        with NoMoreThan(weights):
            process = NeuralProcess(**config["network"], about=config["about"])
        load_weights(process.network, weights)
        process.network.requires_grad_(False)
        return process

    @staticmethod
    def architecture(config: Mapping[str, Any]) -> str:
        """The kind of model of a description, in words."""
        return Kind(config["network"]["kind"]).words

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @property
    def input_dims(self) -> tuple[int, ...]:
        return (self.dim,)

    def to(self, device: torch.device | str) -> "NeuralProcess":
        """The model on another device, in place."""
        self.network.to(device)
        return self

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws of the prior at `x`: [S B N P]."""
        inputs = read_inputs(x, input_dims=self.input_dims, device=self.device)
        prior = NeuralProcessPosterior(self, empty_context(inputs, 1), form_of_inputs(x, 1))
        return prior.sample(x, num_samples, joint=joint, observation_noise=observation_noise, generator=generator)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> "NeuralProcessPosterior":
        """The posterior given `y` at `x`."""
        context, form = read_context(x, y, noise, mask, num_outputs=1, input_dims=self.input_dims, device=self.device)
        if bool((context.noise > 0).any()):
            raise ValueError("a neural process takes observations as they are: it cannot be told their noise")
        return NeuralProcessPosterior(self, context, form)

    def loss(
        self, network: nn.Module, inputs: StepInputs, generator: torch.Generator, objective: Objective | None = None
    ) -> Float[Tensor, "B"]:
        """Minus the log-likelihood of the targets a point, or minus its bound where there is a latent variable.

        It never waits for the device, but for a convolutional kind, whose grid depends on where the inputs lie. There is
        nothing to choose in the `objective`.
        """
        nps = package()
        known = inputs.num_context
        x, y = inputs.x.mT, inputs.y0.mT
        parts = x[..., :known], y[..., :known], x[..., known:], y[..., known:]
        options: dict[str, Any] = {"normalise": True}
        if self.kind.latent:
            options |= {"subsume_context": True, "num_samples": ELBO_DRAWS}
        with on_device(x.device), self._decisions, WithoutWaiting():
            _, gain = (nps.elbo if self.kind.latent else nps.loglik)(generator, network, *parts, **options)
        return -gain

    def validation(
        self,
        sources: Sequence[Source],
        device: torch.device,
        objective: Objective,
        *,
        exact: GP | None = None,
        tasks: int = 16,
    ) -> "HeldOutLikelihood":
        """A score of networks on held-out tasks of the first source: minus their log-likelihood."""
        return HeldOutLikelihood.of(self, sources[0], device)

    @property
    def training_support(self) -> TrainingSupport:
        """How the steps of training may be run: a convolution's grid depends on where the inputs lie."""
        return TrainingSupport(compiled=False, distributed=False, cuda_graph=not self.kind.convolutional)


@final
class NeuralProcessPosterior(HasMoments):
    """A neural process given a context. It has one kind of values: observations."""

    def __init__(self, process: NeuralProcess, context: Context, form: Form) -> None:
        self._process = process
        self._context = context
        self._form = form

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Draws at `x`, [S B M P]: joint so far as the network models it or, `joint=False`, every value by itself."""
        _check_noise(observation_noise)
        count = check_num_samples(num_samples)
        inputs = read_inputs_for(self._context, x)
        each, points = (self, inputs) if joint else (self._one_task_a_target(inputs), inputs.flatten(0, 1)[:, None])
        generator = read_generator(generator)
        blocks = [each._predict(points, DRAWS_AT_ONCE, generator)[2] for _ in range(0, count, DRAWS_AT_ONCE)]
        drawn = torch.cat(blocks)[:count].reshape(count, *inputs.shape[:2], 1)
        return self._form.give(drawn if num_samples is not None else drawn[0])

    def moments(self, x: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Moments:
        """Mean and standard deviation: in closed form, or over latent variables that are the same at every call."""
        _check_noise(observation_noise)
        mean, std, _ = self._predict(read_inputs_for(self._context, x), self._members())
        return Moments(self._form.give(mean), self._form.give(std))

    def quantiles(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> Array:
        """Quantiles at every point, [Q B M P]: of a normal distribution, or of draws where there is a latent variable."""
        return self.summary(x, probabilities, joint=joint, observation_noise=observation_noise)[1]

    def summary(
        self, x: Array, probabilities: Sequence[float], *, joint: bool = True, observation_noise: bool | None = None
    ) -> tuple[Moments, Array]:
        """Moments and quantiles."""
        _check_noise(observation_noise)
        inputs = read_inputs_for(self._context, x)
        levels = read_probabilities(probabilities, inputs)
        mean, std, drawn = self._predict(inputs, self._members())
        if self._process.kind.latent:
            quantiles = torch.quantile(drawn, levels, dim=0)
        else:
            quantiles = mean + torch.special.ndtri(levels)[:, None, None, None] * std
        return Moments(self._form.give(mean), self._form.give(std)), self._form.give(quantiles)

    def log_prob(self, x: Array, y: Array, *, joint: bool = True, observation_noise: bool | None = None) -> Array:
        """Log-density of `y` at `x` in nats, averaged over latent variables where there are any.

        [B] of all values together, or with `joint=False` [B M P] of each by itself.
        """
        _check_noise(observation_noise)
        inputs, values = read_target_values(self._context, self._form, x, y)
        if joint:
            return self._form.give_per_task(self._log_prob(inputs, values))
        each = self._one_task_a_target(inputs)
        log_p = each._log_prob(inputs.flatten(0, 1)[:, None], values.flatten(0, 1)[:, None])
        return self._form.give(log_p.reshape(values.shape))

    @torch.no_grad()
    def _log_prob(self, inputs: Float[Tensor, "B M D"], values: Float[Tensor, "B M 1"]) -> Float[Tensor, "B"]:
        result = inputs.new_zeros(len(inputs))
        for rows, known_x, known_y in self._groups():
            state = self._state(_fixed())
            given = (t.float().mT for t in (known_x, known_y, inputs[rows], values[rows]))
            with on_device(inputs.device):
                _, log_p = package().loglik(state, self._process.network, *given, num_samples=self._members())
            result[rows] = log_p.to(result)
        return result

    def _one_task_a_target(self, inputs: Float[Tensor, "B M D"]) -> "NeuralProcessPosterior":
        context, points = self._context, inputs.shape[1]
        repeated = (t.repeat_interleave(points, dim=0) for t in (context.x, context.y, context.noise, context.mask))
        return NeuralProcessPosterior(self._process, Context(*repeated), self._form)

    @torch.no_grad()
    def _predict(
        self, inputs: Float[Tensor, "B M D"], count: int, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "B M 1"], Float[Tensor, "B M 1"], Float[Tensor, "S B M 1"]]:
        """Mean, standard deviation and draws; without a generator the same at every call and for every group of tasks."""
        mean, std = (torch.zeros_like(inputs[..., :1]) for _ in range(2))
        drawn = mean.expand(count, *mean.shape).clone()
        for rows, known_x, known_y in self._groups():
            given = (t.float().mT for t in (known_x, known_y, inputs[rows]))
            state = self._state(_fixed() if generator is None else generator)
            with on_device(inputs.device):
                _, m, variance, _, y = package().predict(state, self._process.network, *given, num_samples=count)
            mean[rows], std[rows] = m.mT.to(mean), variance.clamp(min=0).sqrt().mT.to(std)
            drawn[:, rows] = y.mT.to(drawn)
        return mean, std, drawn

    def _groups(self) -> Iterator[tuple[Int[Tensor, "R"], Float[Tensor, "R C D"], Float[Tensor, "R C 1"]]]:
        """Tasks with equally many observations, and those observations: a network takes no masks.

        A task of a latent kind is alone, because the noise of its latent variable depends on the size of the batch.
        """
        context = self._context
        sizes = context.mask.sum(1)
        groups = [(sizes == size).nonzero()[:, 0] for size in sizes.unique()]
        if self._process.kind.latent:
            groups = list(torch.arange(len(sizes), device=sizes.device).split(1))
        for rows in groups:
            size = int(sizes[rows[0]])
            real = context.mask[rows].to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
            yield (
                rows,
                *(t[rows].gather(1, real[..., None].expand(-1, -1, t.shape[-1])) for t in (context.x, context.y)),
            )

    def _members(self) -> int:
        return LATENT_DRAWS if self._process.kind.latent else 2  # with one, the package takes a sample for a batch

    def _state(self, generator: torch.Generator) -> torch.Generator:
        """A generator on the network's device, seeded by the user's."""
        return torch.Generator(self._process.device).manual_seed(seed_from(generator))


@dataclass(frozen=True)
class HeldOutLikelihood:
    """Fixed tasks, and the loss of a neural process on them while it trains."""

    model: NeuralProcess
    tasks: tuple[Batch, ...]
    by_dim: dict[int, float] = field(default_factory=dict)  # there is one number of input dimensions
    unit = "negative log-likelihood"

    @staticmethod
    def of(model: NeuralProcess, source: Source, device: torch.device, *, tasks: int = 32) -> "HeldOutLikelihood":
        """Eight batches, for eight sizes of context."""
        generator = torch.Generator(device).manual_seed(2**40)
        return HeldOutLikelihood(model, tuple(source.draw(tasks, generator=generator) for _ in range(8)))

    @torch.no_grad()
    def __call__(self, network: nn.Module) -> float:
        device = self.tasks[0].x.device
        losses = [
            self.model.loss(network, _step_inputs(batch), torch.Generator(device).manual_seed(0))
            for batch in self.tasks
        ]
        return torch.cat(losses).mean().item()


def _step_inputs(batch: Batch) -> StepInputs:
    x, y = batch.x.float(), batch.y.float()
    return StepInputs(x, y, torch.zeros_like(x[..., 0]), torch.zeros_like(y), batch.mask, batch.num_context)


def _check_noise(observation_noise: bool | None) -> None:
    read_observation_noise(observation_noise, separates_noise=False)


def _fixed() -> torch.Generator:
    return torch.Generator().manual_seed(0)
