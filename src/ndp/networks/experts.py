"""GP experts: a grid of Gaussian processes in closed form, and the gate that mixes their prediction with a network's.

The grid holds two kernels, 8 lengthscales and 4 sizes of noise. Each expert is weighed by its evidence, so that together they
are a mixture of Gaussian processes. A network predicts `v_network`, the experts predict `v_experts`, and the output is

    v = v_network + gate (v_experts - v_network)

The gate is a small network that reads both predictions, the features of the blocks and how well the experts fit. It starts at
zero, which leaves the network as it was. The gate serves independent targets. Joint values take
their dependence from the experts (`copula`).
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ndp.diffusion.levels import alpha, ratio, sigma
from ndp.gp.copula import GaussianMixtureCopula
from ndp.networks.embedding import PreciseLinear, log_spaced

# Kernels exp(-r^2 / 2) and (1 + sqrt(3) r) exp(-sqrt(3) r), each with these lengthscales (times the root of the number of
# inputs, which have variance one) and with these standard deviations of noise, as a share of the function's.
LENGTHSCALES = tuple(log_spaced(8, 0.12, 6.0).tolist())
NOISES = (0.01, 0.04, 0.15, 0.6)
JITTER = 1e-6
# The variance of a function is not known: 1 / variance has a Gamma prior with this shape and rate.
SHAPE, RATE = 1.0, 1.0
MOST_NUMBERS = 2**24  # of the covariances that are held at a time
TARGETS = 256  # that are asked for at a time
LEAST_WEIGHT = 1e-4  # of an expert that counts in a copula
MOST_IN_COPULA = 2**23  # numbers of a task's covariances in a copula
MOST_KEPT = 2**25  # numbers of Cholesky factors that are kept for further targets


@dataclass(frozen=True)
class ExpertPredictions:
    """The normal distributions of single values under K experts, given the context, and the experts' weights."""

    log_weight: Float[Tensor, "B K"]
    mean: Float[Tensor, "B K M"]
    variance: Float[Tensor, "B K M"]
    summary: Float[Tensor, "B M F"]  # mean and spread of the mixture, its fit, and the sizes of context and input

    @staticmethod
    def of(
        log_weight: Float[Tensor, "B K"],
        mean: Float[Tensor, "B K M"],
        variance: Float[Tensor, "B K M"],
        fit: Float[Tensor, "B 1"],
        count: Int[Tensor, "B 1"],
        dim: int,
    ) -> "ExpertPredictions":
        """With its summary: `fit` is the log-evidence of an observation, above that of white noise."""
        weight = log_weight.exp()[..., None]
        middle = (weight * mean).sum(1)
        spread = (weight * (variance + (mean - middle[:, None]).square())).sum(1)
        summary = [middle, 0.5 * spread.log(), fit.expand_as(middle), (count + 1).log().expand_as(middle)]
        summary.append(torch.full_like(middle, math.log(dim)))
        return ExpertPredictions(log_weight, mean, variance, torch.stack(summary, dim=-1))

    def v(self, y_t: Float[Tensor, "R M"], level: Float[Tensor, "#R #M"]) -> Float[Tensor, "R M"]:
        """The v-prediction that stands for E[y0 | y_t], at R = S * B rows.

        Under N(m, s^2) it is sigma (alpha (1 - s^2) y_t - m) / (alpha^2 s^2 + sigma^2).
        """
        tasks, _, targets = self.mean.shape
        rows = y_t.reshape(-1, tasks, 1, targets)
        if len(level) > 1:
            level = level.reshape(-1, tasks, 1, level.shape[-1])
        a, s = alpha(level), sigma(level)
        spread = a.square() * self.variance + s.square()
        off = rows - a * self.mean
        log_p = self.log_weight[..., None] - 0.5 * (off.square() / spread + spread.log())
        each = s * (a * (1 - self.variance) * rows - self.mean) / spread
        return (torch.softmax(log_p, dim=2) * each).sum(2).reshape(y_t.shape)


SUMMARY = 5  # numbers in `ExpertPredictions.summary` for every value


@dataclass(frozen=True)
class _Factors:
    """What some experts know of the context: the Cholesky factors of their covariances, and the whitened values."""

    root: Float[Tensor, "B L S C C"]
    white: Float[Tensor, "B L S C 1"]
    log_evidence: Float[Tensor, "B L S"]
    size: Float[Tensor, "B L S"]  # sum of squares of the whitened values


@dataclass(frozen=True)
class ExpertPosterior:
    """All experts given a context, in units of that context.

    A context at a level below CLEAN has noise of a known size on top of what it shows. `factors` are those of `kept`.
    """

    x: Float[Tensor, "B C D"]
    y: Float[Tensor, "B C"]
    level: Float[Tensor, "B C"]
    mask: Bool[Tensor, "B C"]
    factors: tuple[_Factors, ...] | None = None

    @staticmethod
    def given(
        x: Float[Tensor, "B C D"], y_t: Float[Tensor, "B C"], level: Float[Tensor, "B C"], mask: Bool[Tensor, "B C"]
    ) -> "ExpertPosterior":
        """The experts given values `y_t` at `x`, each at a noise level of its own; in float64."""
        x, y_t, level = (t.double() for t in (x, y_t, level))
        return ExpertPosterior(x, (y_t / alpha(level)).masked_fill(~mask, 0.0), level, mask)

    def kept(self) -> "ExpertPosterior":
        """The same with its Cholesky factors computed for all targets to come, where there is room for them."""
        tasks, points = self.mask.shape
        if tasks * points**2 * 2 * len(NOISES) * len(LENGTHSCALES) > MOST_KEPT:
            return self
        return replace(self, factors=tuple(self._factorise(piece) for piece in self._lengthscales()))

    def predict(self, x_target: Float[Tensor, "B M D"], of_function: Bool[Tensor, "#B"]) -> ExpertPredictions:
        """The experts' predictions at `x_target`: of the function where `of_function`, else of new observations."""
        x, mask, x_target = self.x, self.mask, x_target.double()
        dim, count = x.shape[-1], mask.sum(1, keepdim=True)
        squared = (x_target[:, :, None] - x[:, None]).square().sum(-1)[:, None]  # [B 1 M C]
        noise = torch.where(of_function[:, None, None], 0.0, on_device(NOISES, x).square())
        found = []
        for index, lengthscales in enumerate(self._lengthscales()):
            factors = self._factorise(lengthscales) if self.factors is None else self.factors[index]
            cross = _kernels(squared, lengthscales[:, None, None]).masked_fill(~mask[:, None, None], 0.0)
            cross = cross.mT[:, :, None].expand(-1, -1, len(NOISES), -1, -1)
            weights = torch.linalg.solve_triangular(factors.root, cross, upper=False)
            left = (1 - torch.linalg.vector_norm(weights, dim=-2).square()).clamp(min=JITTER)
            amplitude = (2 * RATE + factors.size) / (2 * SHAPE + count[..., None])
            variance = (left + noise[..., None]) * amplitude[..., None]
            mean = (factors.white.mT @ weights).squeeze(-2)
            found.append([t.flatten(1, 2) for t in (factors.log_evidence, mean, variance)])
        log_evidence, mean, variance = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        nothing = _log_student(self.y.square().sum(1, keepdim=True), count)  # the evidence of white noise
        fit = (torch.logsumexp(log_evidence, 1, keepdim=True) - math.log(mean.shape[1]) - nothing) / (count + 1)
        return ExpertPredictions.of(torch.log_softmax(log_evidence, dim=1), mean, variance, fit, count, dim)

    def copula(self, x_target: Float[Tensor, "B M D"], *, of_function: bool) -> GaussianMixtureCopula:
        """How values at `x_target` depend on each other under the experts that explain the context."""
        x, mask, x_target = self.x, self.mask, x_target.double()
        factors = [self._factorise(piece) for piece in self._lengthscales()] if self.factors is None else self.factors
        log_weight = torch.log_softmax(torch.cat([one.log_evidence.flatten(1) for one in factors], dim=1), dim=1)
        points = max(x_target.shape[1], x.shape[1])
        counts = log_weight > math.log(LEAST_WEIGHT)
        log_weight = log_weight.masked_fill(~counts, -math.inf)
        most = max(1, MOST_IN_COPULA // points**2)
        log_weight, index = log_weight.topk(min(most, int(counts.sum(1).max())), dim=1)
        smooth = (index // len(NOISES) % 2 == 0)[..., None, None]
        lengthscale = self._all_lengthscales()[index // (2 * len(NOISES))][..., None, None]
        noise = on_device(NOISES, x)[index % len(NOISES)].square()

        def kernel(first: Float[Tensor, "B N D"], second: Float[Tensor, "B M D"]) -> Float[Tensor, "B K N M"]:
            squared = (first[:, :, None] - second[:, None]).square().sum(-1)[:, None]
            return torch.where(smooth, _smooth(squared, lengthscale), _rough(squared, lengthscale))

        real = (mask[:, :, None] & mask[:, None])[:, None]
        own = torch.where(mask[:, None], ratio(self.level).square()[:, None] + JITTER + noise[..., None], 1.0)
        root, _ = torch.linalg.cholesky_ex(kernel(x, x).masked_fill(~real, 0.0) + torch.diag_embed(own))
        cross = torch.linalg.solve_triangular(
            root, kernel(x, x_target).masked_fill(~mask[:, None, :, None], 0.0), upper=False
        )
        white = torch.linalg.solve_triangular(
            root, self.y[:, None, :, None].expand(*root.shape[:2], -1, 1), upper=False
        )
        amplitude = (2 * RATE + white.square().sum((-2, -1))) / (2 * SHAPE + mask.sum(1, keepdim=True))
        added = JITTER if of_function else noise[..., None, None] + JITTER
        covariance = kernel(x_target, x_target) - cross.mT @ cross
        covariance = covariance + added * torch.eye(x_target.shape[1]).to(x_target)
        return GaussianMixtureCopula(
            torch.log_softmax(log_weight, dim=1),
            (cross.mT @ white)[..., 0],
            covariance * amplitude[..., None, None],
        )

    def _all_lengthscales(self) -> Float[Tensor, "_"]:
        return on_device(LENGTHSCALES, self.x) * math.sqrt(self.x.shape[-1])

    def _lengthscales(self) -> tuple[Float[Tensor, "_"], ...]:
        """All of them, as many at a time as there is room for."""
        tasks, points = self.mask.shape
        numbers = tasks * points * (points + TARGETS) * 2 * len(NOISES)
        at_a_time = max(1, min(len(LENGTHSCALES), MOST_NUMBERS // max(numbers, 1)))
        return self._all_lengthscales().split(at_a_time)

    def _factorise(self, lengthscales: Float[Tensor, "_"]) -> _Factors:
        x, mask = self.x, self.mask
        squared = (x[:, :, None] - x[:, None]).square().sum(-1)[:, None]
        unseen = ~(mask[:, None] & mask[:, :, None])[:, None]
        own_noise = torch.where(mask, ratio(self.level).square() + JITTER, 1.0)[
            :, None
        ]  # a masked place has variance 1
        noises = on_device(NOISES, x).square()
        added = torch.diag_embed(own_noise + torch.where(mask[:, None], noises[:, None], 0.0))  # [B S C C]
        kernels = _kernels(squared, lengthscales[:, None, None]).masked_fill(unseen, 0.0)
        root, _ = torch.linalg.cholesky_ex(kernels[:, :, None] + added[:, None])
        values = self.y[:, None, None, :, None].expand(*root.shape[:3], -1, 1)
        white = torch.linalg.solve_triangular(root, values, upper=False)
        size = white.square().sum((-2, -1))
        half_log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return _Factors(root, white, _log_student(size, mask.sum(1)[:, None, None]) - half_log_det, size)


def _kernels(squared: Float[Tensor, "B 1 N C"], lengthscales: Float[Tensor, "L 1 1"]) -> Float[Tensor, "B 2*L N C"]:
    """Of points at these squared distances: with each lengthscale the smooth kernel and the rough one."""
    return torch.stack([_smooth(squared, lengthscales), _rough(squared, lengthscales)], dim=2).flatten(1, 2)


def _smooth(squared: Tensor, lengthscale: Tensor) -> Tensor:
    return torch.exp(-0.5 * squared / lengthscale.square())


def _rough(squared: Tensor, lengthscale: Tensor) -> Tensor:
    root = math.sqrt(3) * (squared + 1e-20).sqrt() / lengthscale
    return (1 + root) * torch.exp(-root)


def _log_student(size: Tensor, count: Tensor) -> Tensor:
    """Log-evidence of so many values with this sum of squares, once whitened, up to what all experts share."""
    return -(SHAPE + count / 2) * torch.log(RATE + size / 2)


def on_device(values: tuple[float, ...], like: Tensor) -> Tensor:
    """Made on the device, and not copied: a training step that is captured as a CUDA graph allows no copies from the CPU."""
    return torch.cat([like.new_full((1,), value) for value in values])


class Gate(nn.Module):
    """How much of the way from the network's prediction to the experts' an output lies."""

    def __init__(self, features: int, width: int = 64) -> None:
        super().__init__()
        self.first = PreciseLinear(features + 3 + SUMMARY, width)
        self.second = PreciseLinear(width, width)
        self.last = PreciseLinear(width, 1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(
        self,
        output: Float[Tensor, "R M 1"],
        features: Float[Tensor, "R M W"],
        y_t: Float[Tensor, "R M 1"],
        level: Float[Tensor, "#R #M"],
        experts: ExpertPredictions,
    ) -> Float[Tensor, "R M 1"]:
        predicted = experts.v(y_t[..., 0].double(), level.double())[..., None].to(output)
        draws = len(output) // len(experts.summary)
        summary = experts.summary.to(output).expand(draws, *experts.summary.shape).flatten(0, 1)
        at = (level / 4).to(output).expand(output.shape[:2])[..., None]
        hidden = torch.cat([features.to(output), output, predicted, at, summary], dim=-1)
        for layer in (self.first, self.second):
            hidden = torch.nn.functional.gelu(layer(hidden))
        return output + self.last(hidden).to(output) * (predicted - output)
