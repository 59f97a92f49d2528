"""Recorded calls against ordinary ones."""

import pytest
import torch
from torch import Tensor

from ndp.diffusion.replay import Replayed
from ndp.models import load_ndp

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU here, and calls are recorded on one"
)


def test_without_a_gpu_a_call_is_a_call() -> None:
    called: list[int] = []

    def double(values: Tensor) -> Tensor:
        called.append(1)
        return 2 * values

    replayed = Replayed(double)
    for value in range(4):
        assert replayed(torch.full((3,), float(value))).tolist() == 3 * [2.0 * value]
    assert len(called) == 4


@needs_gpu
def test_replays_answer_new_inputs_and_are_not_overwritten() -> None:
    scale = torch.tensor(3.0, device="cuda")
    with torch.no_grad():
        replayed = Replayed(lambda values, other: scale * values + other)
        inputs = [torch.full((5,), float(value), device="cuda") for value in range(6)]
        answers = [replayed(one, one.sum()) for one in inputs]
    assert [answer[0].item() for answer in answers] == [8.0 * value for value in range(6)]


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
    monkeypatch.setattr("ndp.diffusion.replay.MOST_VALUES", 0)
    ordinary = model.condition(x[:7], y).sample(x[7:], 3, steps=6, base_noise=noise)
    torch.testing.assert_close(recorded, ordinary, atol=2e-3, rtol=2e-3)
