"""The Neural Diffusion Process: a network, its units and what its output means, in one object that can be conditioned."""

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, final

import torch
from huggingface_hub import ModelHubMixin
from jaxtyping import Float
from torch import Tensor, nn

from ndp.core.arrays import Context, Form, empty_context, form_of_inputs, read_context, read_inputs
from ndp.core.io.checkpoint import load_weights, read_checkpoint, write_checkpoint
from ndp.core.typing import Array, JointNetwork, Network
from ndp.core.units import ContextUnits, ModelUnits, Units, identity_units, read_units, standardised
from ndp.diffusion.objective import Objective, StepInputs, TrainingSupport, denoising_loss
from ndp.diffusion.prediction import Prediction
from ndp.diffusion.solvers import Solver, dpm_solver
from ndp.facts.base import Fact
from ndp.facts.posterior import PARTICLES, GivenPosterior, nothing_observed
from ndp.gp.exact import GP
from ndp.networks.registry import JOINT, current_weights, describe_network, make_network_of_shapes
from ndp.priors.tasks import Source
from ndp.processes.conditioning import Diffusion, EncodedContext
from ndp.processes.dependence import Dependence
from ndp.processes.description import (
    check_units,
    read_about,
    read_input_dims,
    read_noise_floor,
    read_num_outputs,
    read_trained_ratios,
)
from ndp.processes.local import LocalPosterior, check_one_task
from ndp.processes.posterior import DENSITY_STEPS, NDPPosterior
from ndp.processes.repaint import RePaintPosterior
from ndp.processes.validation import Validation

# The fewest calls for joint draws. With exact denoisers they leave an error of 2 to 6 % in the covariance of 60 to 256 values
# (Matern-5/2, D = 1, 2, 3 and 6); 6 leave 2 to 14 %, 8 to 10 leave 3 to 8 %, and 12 leave 6 %.
FEWEST_STEPS = 7


@final
class NDP(ModelHubMixin, library_name="ndp", license="apache-2.0", tags=["neural-diffusion-process"]):
    """A distribution over functions, learned by `network`.

    Parameters
    ----------
    network
        Denoises function values; a `JointNetwork` denoises inputs as well, and its posterior draws them (`sample_inputs`).
    prediction
        What the network's output means.
    noise_floor
        Standard deviation of the observation noise that the functions carry (0: none). It decides where the grid of noise
        levels ends.
    num_outputs
        Numbers in a function value.
    input_dims
        Numbers of input dimensions that the network was trained for (None: any).
    trained_ratios
        The range of sigma / alpha that the network was trained for.
    units
        The units in which the network works: `FixedUnits`, `ContextUnits`, or None for the user's own. Everything that goes in
        and comes out is in the user's units.
    about
        What goes with the weights: what the model was trained on, and how it scored.
    """

    def __init__(
        self,
        network: Network | JointNetwork,
        *,
        prediction: Prediction | str = Prediction.V,
        noise_floor: float = 0.0,
        num_outputs: int = 1,
        input_dims: Sequence[int] | None = None,
        trained_ratios: Sequence[float] = (0.004, 80.0),
        units: ModelUnits | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.prediction = Prediction(prediction)
        self.noise_floor = read_noise_floor(noise_floor)
        self.num_outputs = read_num_outputs(num_outputs, network)
        self.input_dims = read_input_dims(input_dims)
        self.trained_ratios = read_trained_ratios(trained_ratios)
        check_units(units, self.num_outputs, self.input_dims)
        self.units = units
        self.about = read_about(about)

    @property
    def device(self) -> torch.device:
        return self._parameter.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the network."""
        return self._parameter.dtype

    @property
    def separates_noise(self) -> bool:
        """Whether values of the function and new observations can both be asked for."""
        return self.diffusion.separates_noise

    @property
    def diffusion(self) -> Diffusion:
        """The network and its noise levels, as posteriors use them."""
        return Diffusion(
            self.network,
            self.prediction,
            self.noise_floor,
            self.num_outputs,
            self.trained_ratios,
            self.dtype,
            self.device,
        )

    @property
    def _parameter(self) -> Tensor:
        weights = self.network.parameters() if isinstance(self.network, nn.Module) else iter(())
        return next(weights, torch.zeros((), dtype=torch.float64))  # an oracle has none

    def sample(
        self,
        x: Array,
        num_samples: int | None = None,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        dependence: Dependence | str | None = None,
        steps: int | None = None,
        solver: Solver = dpm_solver,
        generator: torch.Generator | None = None,
        base_noise: Array | None = None,
    ) -> Array:
        """Draws of the prior at `x`, [S B N P]: the posterior without observations."""
        return self._prior(x).sample(
            x,
            num_samples,
            joint=joint,
            observation_noise=observation_noise,
            dependence=dependence,
            steps=steps,
            solver=solver,
            generator=generator,
            base_noise=base_noise,
        )

    def log_prob(
        self,
        x: Array,
        y: Array,
        *,
        joint: bool = True,
        observation_noise: bool | None = None,
        steps: int = DENSITY_STEPS,
        probes: int | None = None,
    ) -> Array:
        """Log-density of `y` at `x` under the prior, in nats: [B] jointly."""
        prior = self._prior(x)
        return prior.log_prob(x, y, joint=joint, observation_noise=observation_noise, steps=steps, probes=probes)

    def condition(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> NDPPosterior:
        """The posterior given `y` at `x`; the context is checked, put in the model's units and encoded here.

        `noise` is the standard deviation with which each value was observed, on top of the noise that the functions carry.
        `mask=False` leaves a point out. No points at all give the prior.
        """
        context, form, units = self._read_context(x, y, noise, mask)
        return NDPPosterior(EncodedContext(self.diffusion, context), form, units)

    @property
    def takes_large_tables(self) -> bool:
        """Whether the model has GP experts that adapt to a table, by which it finds the rows nearest to a question."""
        return bool(getattr(self.network, "adaptive", False)) and isinstance(self.units, ContextUnits)

    def condition_locally(self, x: Array, y: Array, *, noise: Array | float | None = None) -> LocalPosterior:
        """The posterior given a large table: up to 10,000 rows and 100 inputs, of one function.

        A value is conditioned on the 256 rows around it that say most about it under the GP experts. The model must have such
        experts and take its units from the data. See `LocalPosterior`.
        """
        if not self.takes_large_tables:
            raise ValueError(
                "this model has no GP experts that adapt to a table; use condition, or the model universal"
            )
        context, form = read_context(x, y, noise, num_outputs=1, input_dims=None, device=self.device)
        dim = context.x.shape[2]
        fitting = [dim] if self.input_dims is None else [one for one in self.input_dims if one <= dim]
        if not fitting:
            raise ValueError(f"x has {dim} input dimension(s), and this model needs {min(self.input_dims or (1,))}")
        return LocalPosterior(self.diffusion, check_one_task(context), form, max(fitting))

    def given(
        self, *facts: Fact, num_particles: int = PARTICLES, dependence: Dependence | str | None = None
    ) -> GivenPosterior:
        """The prior given facts of `ndp.facts`. See `NDPPosterior.given`."""
        dim = self.input_dims[0] if self.input_dims else 1
        prior = self.condition(*nothing_observed(facts, dim))
        return prior.given(*facts, num_particles=num_particles, dependence=dependence)

    def repaint(
        self, x: Array, y: Array, *, noise: Array | float | None = None, mask: Array | None = None
    ) -> RePaintPosterior:
        """The posterior by the paper's RePaint: slow and slightly biased, but it conditions any network."""
        return RePaintPosterior(self.diffusion, *self._read_context(x, y, noise, mask))

    def loss(
        self, network: nn.Module, inputs: StepInputs, generator: torch.Generator, objective: Objective
    ) -> Float[Tensor, "B"]:
        """The loss of `network`, which has this model's architecture, on the tasks of a step."""
        return denoising_loss(
            network,  # type: ignore[arg-type]
            inputs.x,
            inputs.y0,
            inputs.level,
            inputs.eps,
            mask=inputs.mask,
            of_function=inputs.of_function,
            independent=inputs.independent,
            posterior_mean=inputs.posterior_mean,
            num_context=inputs.num_context,
            prediction=self.prediction,
            error=objective.error,
        )

    def validation(
        self,
        sources: Sequence[Source],
        device: torch.device,
        objective: Objective,
        *,
        exact: GP | None = None,
        tasks: int = 16,
    ) -> Validation:
        """A score of networks on held-out tasks, so many of each source; in nats where the `exact` process is known."""
        return Validation.of(
            sources, device, objective, prediction=self.prediction, exact=exact, joint=self.of_points, tasks=tasks
        )

    @property
    def training_support(self) -> TrainingSupport:
        """How the steps of training may be run: the choice of experts that adapt is not captured."""
        return TrainingSupport(cuda_graph=not getattr(self.network, "adaptive", False))

    @property
    def of_points(self) -> bool:
        """Whether this is a model of inputs and values together."""
        return self.diffusion.of_points

    def config(self) -> dict[str, Any]:
        """The description from which `from_config` makes this model again, without `about`."""
        return {
            "network": describe_network(self.network),
            "prediction": str(self.prediction),
            "noise_floor": self.noise_floor,
            "num_outputs": self.num_outputs,
            "input_dims": self.input_dims,
            "trained_ratios": self.trained_ratios,
            "units": None if self.units is None else self.units.as_dict(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> "NDP":
        """The model of a description and its weights."""
        if config.get("process") == "joint" and config["network"].get("kind") != JOINT:
            raise ValueError("a model of inputs and values needs a joint network")
        network = make_network_of_shapes(config["network"])
        load_weights(network, current_weights(weights))
        return cls(
            network.requires_grad_(False).eval(),
            prediction=Prediction(config["prediction"]),
            noise_floor=config["noise_floor"],
            num_outputs=config["num_outputs"],
            input_dims=config["input_dims"],
            trained_ratios=config["trained_ratios"],
            units=read_units(config.get("units")),
            about=config["about"],
        )

    @staticmethod
    def architecture(config: Mapping[str, Any]) -> str:
        """The kind of model of a description, in words."""
        joint = config["network"].get("kind") == JOINT or config.get("process") == "joint"
        return "joint neural diffusion process" if joint else "neural diffusion process"

    def to(self, device: torch.device | str) -> "NDP":
        """The model on another device, in place."""
        if isinstance(self.network, nn.Module):
            self.network.to(device)
        return self

    def compiled(self) -> "NDP":
        """The same model, weights shared, with a compiled network: many draws on a GPU are several times faster.

        The first draw of every new shape takes some seconds more.
        """
        twin = copy(self)
        if isinstance(self.network, nn.Module):
            network: Any = copy(self.network)
            for name in ("forward", "denoise", "denoise_points"):
                if hasattr(network, name):
                    setattr(network, name, torch.compile(getattr(network, name), dynamic=False))
            twin.network = network
        return twin

    def _save_pretrained(self, save_directory: Path) -> None:
        write_checkpoint(Path(save_directory), "ndp", self.config(), self.network, self.about)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> "NDP":
        checkpoint = read_checkpoint(model_id, **options)
        if checkpoint.process not in ("ndp", "joint"):
            raise ValueError(f"{model_id} holds a {checkpoint.process}, not an NDP; load it with ndp.load")
        return checkpoint.build(cls.from_config)

    def _read_context(
        self, x: Array, y: Array, noise: Array | float | None, mask: Array | None
    ) -> tuple[Context, Form, Units]:
        """A context in model units, the form of answers, and the units."""
        context, form = read_context(
            x, y, noise, mask, num_outputs=self.num_outputs, input_dims=self.input_dims, device=self.device
        )
        units = self._units_of(context)
        return standardised(context, units), form, units

    def _units_of(self, context: Context) -> Units:
        return identity_units(context) if self.units is None else self.units.of(context)

    def _prior(self, x: Array) -> NDPPosterior:
        inputs = read_inputs(x, input_dims=self.input_dims, device=self.device)
        nothing = empty_context(inputs, self.num_outputs)
        units = self._units_of(nothing)
        return NDPPosterior(EncodedContext(self.diffusion, nothing), form_of_inputs(x, self.num_outputs), units)
