"""Replayed calls against ordinary ones, and the memory that graphs take."""

import pytest
import torch
from torch import Tensor, nn

from ndp.diffusion.prediction import Prediction
from ndp.models.registry import load_ndp
from ndp.networks.cuda_graphs import _GRAPHS, GraphedCall, _cloned, _shape_of, _tensors_in

MIB = 2**20


def graphed(factor: Tensor, network: nn.Module | None = None) -> GraphedCall:
    def call(factor: Tensor, values: Tensor, other: Tensor) -> Tensor:
        return factor * values + other

    return GraphedCall(network or nn.Identity(), call, factor)


def test_on_a_cpu_every_call_is_ordinary() -> None:
    calls: list[int] = []

    def times(factor: float, values: Tensor) -> Tensor:
        calls.append(1)
        return factor * values

    call = GraphedCall(nn.Identity(), times, 2.0)
    for value in range(4):
        assert call(torch.full((3,), float(value))).tolist() == 3 * [2.0 * value]
    assert len(calls) == 4


@pytest.mark.gpu
def test_replays_answer_new_inputs_and_are_not_overwritten() -> None:
    with torch.no_grad():
        call = graphed(torch.tensor(3.0, device="cuda"), network := nn.Identity())
        inputs = [torch.full((5,), float(value), device="cuda") for value in range(6)]
        answers = [call(one, one.sum()) for one in inputs]
    assert len(_GRAPHS[network].graphs) == 1
    assert [answer[0].item() for answer in answers] == [8.0 * value for value in range(6)]


@pytest.mark.gpu
def test_one_graph_serves_different_constants() -> None:
    network = nn.Identity()
    with torch.no_grad():
        calls = [graphed(torch.tensor(factor, device="cuda"), network) for factor in (2.0, 3.0)]
        one = torch.ones(5, device="cuda")
        answers = [calls[turn % 2](one, 0 * one.sum())[0].item() for turn in range(6)]
    assert len(_GRAPHS[network].graphs) == 1
    assert answers == [2.0, 3.0] * 3


@pytest.mark.gpu
def test_replays_on_two_streams_wait_for_each_other() -> None:
    network, size = nn.Identity(), 60_000
    streams = [torch.cuda.Stream() for _ in range(2)]

    def call(factor: Tensor, values: Tensor) -> Tensor:
        for _ in range(50):
            values = factor * values
        return values

    one = GraphedCall(network, call, torch.ones((), device="cuda"))
    with torch.no_grad():
        inputs = [torch.full((size,), float(value), device="cuda") for value in range(40)]
        for first in inputs[:2]:
            one(first)
        torch.cuda.synchronize()
        answers = []
        for turn, values in enumerate(inputs):
            with torch.cuda.stream(streams[turn % 2]):
                answers.append(one(values))
        torch.cuda.synchronize()
    for answer, values in zip(answers, inputs, strict=True):
        assert torch.equal(answer, values)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["matern52", "bo-marginal", "universal", "mnist"])
def test_draws_are_the_same_as_without_graphs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_ndp(name, "cuda")
    dim = 2 if name == "mnist" else max(model.input_dims or (1,))
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(12, dim, generator=generator) - 1
    y = torch.rand(7, model.num_outputs, generator=generator)
    noise = torch.randn(3, 5, model.num_outputs, generator=generator)
    with_graphs = model.condition(x[:7], y).sample(x[7:], 3, steps=6, base_noise=noise)
    assert _GRAPHS[model.network].graphs
    monkeypatch.setattr("ndp.networks.cuda_graphs.MOST_VALUES", 0)
    ordinary = model.condition(x[:7], y).sample(x[7:], 3, steps=6, base_noise=noise)
    torch.testing.assert_close(with_graphs, ordinary, atol=2e-3, rtol=2e-3)


@pytest.mark.gpu
def test_moments_are_the_same_as_without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_ndp("universal", "cuda")
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    posterior = model.condition(x[:30], x[:30].sum(1))
    with_graphs = [posterior.moments(x[30:], observation_noise=True) for _ in range(3)][-1]
    assert _GRAPHS[model.network].graphs
    monkeypatch.setattr("ndp.networks.cuda_graphs.MOST_VALUES", 0)
    ordinary = posterior.moments(x[30:], observation_noise=True)
    torch.testing.assert_close(with_graphs.mean, ordinary.mean, atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(with_graphs.std, ordinary.std, atol=2e-3, rtol=2e-3)


@pytest.mark.gpu
def test_memory_stays_flat_over_500_sizes_of_the_context() -> None:
    """Every size is recorded anew. A graph that makes room for another gives its memory back."""
    model = load_ndp("se", "cuda")
    generator = torch.Generator().manual_seed(0)
    at = torch.linspace(-2, 2, 50)[:, None]
    reserved = []
    for size in range(1, 501):
        x = 4 * torch.rand(size, 1, generator=generator) - 2
        posterior = model.condition(x, x.sin()[:, 0])
        for _ in range(2):
            posterior.sample(at, 64, steps=3, generator=generator)
        reserved.append(torch.cuda.memory_reserved() / MIB)
    early, late = max(reserved[50:100]), max(reserved[-50:])
    print(f"reserved at sizes 51 to 100: {early:.0f} MiB; at sizes 451 to 500: {late:.0f} MiB")
    assert len(_GRAPHS[model.network].graphs) == 4
    assert late < early + 64, "the larger contexts themselves take a little more"


@pytest.mark.gpu
def test_calls_are_ordinary_where_memory_does_not_suffice_for_graphs() -> None:
    """A small call gets its graph. A large one finds the memory taken: the graph is dropped, and the answer is right."""
    network, gib = nn.Identity(), 2**30
    values = torch.ones(2**16, device="cuda")

    def call(constants: tuple[Tensor, int], values: Tensor) -> Tensor:
        factor, number = constants
        parts = [factor * values.repeat(4096) + part for part in range(number)]  # 1 GiB each, and 2 GiB on the way
        return torch.stack([part[: len(values)] for part in parts]).sum(0)

    torch.cuda.empty_cache()
    limit = torch.cuda.memory_reserved() + 14 * gib
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    try:
        with torch.no_grad():
            for number, graphs in ((4, 1), (8, 0), (8, 0), (4, 1)):
                one = GraphedCall(network, call, (torch.tensor(2.0, device="cuda"), number))
                answers = [one(values) for _ in range(3)]
                for answer in answers:
                    assert torch.equal(answer, number * 2 * values + sum(range(number)))
                assert len(_GRAPHS[network].graphs) == graphs
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        _GRAPHS[network].clear()


def test_parts_of_a_constant_object_are_part_of_its_shape() -> None:
    network = load_ndp("universal").network
    x, y = torch.randn(1, 4, 2), torch.randn(1, 4, 1)
    context = network.encode_context(x, y, torch.full((1, 4), 20.0), None)
    targets = network.encode_targets(context, x, joint=False, observation_noise=True)
    assert _shape_of(targets) is not None
    twin = _cloned(targets)
    own, other = _tensors_in(twin), _tensors_in(targets)
    assert len(own) > 10
    assert not {t.data_ptr() for t in own if t.numel()} & {t.data_ptr() for t in other if t.numel()}
    for mine, theirs in zip(own, other, strict=True):
        assert torch.equal(mine, theirs)


def test_a_shape_is_all_but_the_numbers_of_tensors() -> None:
    targets = []
    for seed, points in ((0, 4), (1, 4), (2, 5)):
        network = load_ndp("se").network
        generator = torch.Generator().manual_seed(seed)
        x, y = (torch.randn(1, points, 1, generator=generator) for _ in range(2))
        context = network.encode_context(x, y, torch.full((1, points), 20.0), None)
        targets.append(network.encode_targets(context, x, joint=True, observation_noise=False))
    first, alike, longer = (_shape_of((encoded, Prediction.V)) for encoded in targets)
    assert first is not None
    assert first == alike != longer
    assert _shape_of((targets[0], Prediction.EPS)) != first
    assert _shape_of((targets[0], lambda: None)) is None
