"""Recorded calls against ordinary ones."""

import pytest
import torch
from torch import Tensor

from ndp.diffusion.prediction import Prediction
from ndp.models.registry import load_ndp
from ndp.networks.cuda_graphs import GraphedCall, _cloned, _shape_of, _tensors_in

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU here, and calls are recorded on one"
)


def _times_and(factor: Tensor) -> GraphedCall:
    def call(factor: Tensor, values: Tensor, other: Tensor) -> Tensor:
        return factor * values + other

    return GraphedCall(needs_gpu, call, factor)


def test_without_a_gpu_a_call_is_a_call() -> None:
    called: list[int] = []

    def times(factor: float, values: Tensor) -> Tensor:
        called.append(1)
        return factor * values

    replayed = GraphedCall(times, times, 2.0)
    for value in range(4):
        assert replayed(torch.full((3,), float(value))).tolist() == 3 * [2.0 * value]
    assert len(called) == 4


@needs_gpu
def test_replays_answer_new_inputs_and_are_not_overwritten() -> None:
    with torch.no_grad():
        replayed = _times_and(torch.tensor(3.0, device="cuda"))
        inputs = [torch.full((5,), float(value), device="cuda") for value in range(6)]
        answers = [replayed(one, one.sum()) for one in inputs]
    assert [answer[0].item() for answer in answers] == [8.0 * value for value in range(6)]


@needs_gpu
def test_a_recording_serves_settings_in_turn() -> None:
    with torch.no_grad():
        calls = [_times_and(torch.tensor(factor, device="cuda")) for factor in (2.0, 3.0)]
        one = torch.ones(5, device="cuda")
        answers = [calls[turn % 2](one, 0 * one.sum())[0].item() for turn in range(6)]
    assert answers == [2.0, 3.0] * 3


@needs_gpu
@pytest.mark.parametrize("name", ["matern52", "bo-marginal", "universal", "mnist"])
def test_draws_are_the_same_as_without_recording(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_ndp(name, "cuda")
    dim = 2 if name == "mnist" else max(model.input_dims or (1,))
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(12, dim, generator=generator) - 1
    y = torch.rand(7, model.num_outputs, generator=generator)
    noise = torch.randn(3, 5, model.num_outputs, generator=generator)
    recorded = model.condition(x[:7], y).sample(x[7:], 3, steps=6, base_noise=noise)
    monkeypatch.setattr("ndp.networks.cuda_graphs.MOST_VALUES", 0)
    ordinary = model.condition(x[:7], y).sample(x[7:], 3, steps=6, base_noise=noise)
    torch.testing.assert_close(recorded, ordinary, atol=2e-3, rtol=2e-3)


@needs_gpu
def test_values_asked_for_alone_are_the_same_as_without_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_ndp("universal", "cuda")
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    laws = model.condition(x[:30], x[:30].sum(1)).observations.marginals
    recorded = [laws.moments(x[30:]) for _ in range(3)][-1]
    monkeypatch.setattr("ndp.networks.cuda_graphs.MOST_VALUES", 0)
    ordinary = laws.moments(x[30:])
    torch.testing.assert_close(recorded.mean, ordinary.mean, atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(recorded.std, ordinary.std, atol=2e-3, rtol=2e-3)


def test_advice_is_a_part_of_a_setting() -> None:
    network = load_ndp("universal").network
    x, y = torch.randn(1, 4, 2), torch.randn(1, 4, 1)
    encoding = network.encode(x, y, torch.full((1, 4), 20.0), None, x, independent=True)
    assert _shape_of(encoding) is not None
    twin = _cloned(encoding)
    assert twin.advice is not encoding.advice
    held = {t.data_ptr() for t in _tensors_in(twin)}
    for own, other in zip(vars(twin.advice).values(), vars(encoding.advice).values(), strict=True):
        assert own.data_ptr() in held
        assert own.data_ptr() != other.data_ptr()
        assert torch.equal(own, other)


def test_a_setting_is_described_by_all_but_the_numbers_of_its_tensors() -> None:
    encodings = []
    for seed, points in ((0, 4), (1, 4), (2, 5)):
        network = load_ndp("se").network
        generator = torch.Generator().manual_seed(seed)
        x, y = (torch.randn(1, points, 1, generator=generator) for _ in range(2))
        encodings.append(network.encode(x, y, torch.full((1, points), 20.0), None, x))
    first, alike, longer = (_shape_of((encoding, Prediction.V)) for encoding in encodings)
    assert first is not None
    assert first == alike != longer
    assert _shape_of((encodings[0], Prediction.EPS)) != first
    assert _shape_of((encodings[0], lambda: None)) is None
    twin = _cloned(encodings[0])
    for mine, theirs in zip(_tensors_in(twin), _tensors_in(encodings[0]), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.data_ptr() != theirs.data_ptr()
    assert len(_tensors_in(twin)) == 2 * 4 + 4  # keys and values of four blocks, inputs, crowding, cosines and sines
