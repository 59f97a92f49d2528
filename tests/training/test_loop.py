"""Training: it learns, it resumes exactly whatever happened to it, and what it draws is a function of seed, rank and step."""

import csv
import math
import os
import signal
import subprocess
import time
from itertools import islice
from pathlib import Path

import pytest
import safetensors.torch
import torch
from lightning_fabric import Fabric

from ndp.diffusion.objective import StepInputs
from ndp.gp.named import regression_gp
from ndp.gp.oracle import GPOracle
from ndp.training.batches import CHUNK, TrainingInputs, seed_of
from ndp.training.build import make_model, make_sources
from ndp.training.config import Recipe
from ndp.training.loop import Half, Progress, _mean_loss, fit, schedule
from ndp.training.run_folder import RunFolder
from ndp.training.update import Update
from small_runs import CPU, SMALL, assert_same, command, cpu, one_thread, recipe, weights_after


def test_training_approaches_the_oracle() -> None:
    """A small network on short training closes most of the way from knowing nothing to knowing everything."""
    plan = recipe(steps=400, batch=32, learning_rate=3e-3, noisy_share=0.0, ema=0.9)
    losses: list[float] = []
    model = make_model(plan)
    fit(
        model,
        make_sources(plan, CPU),
        plan,
        fabric=cpu(),
        report=lambda progress: losses.append(progress.loss),
        report_every=50,
    )
    inputs = TrainingInputs(make_sources(plan, CPU), plan, CPU, rank=7).chunk(0, 0)[0]
    from ndp.diffusion.objective import denoising_loss

    tensors = [t.double() if t.is_floating_point() else t for t in inputs.tensors()]
    x, y0, level, eps, mask = tensors
    options = {"mask": mask, "num_context": inputs.num_context}
    best = denoising_loss(GPOracle(regression_gp("se")), x, y0, level, eps, **options).mean().item()
    assert losses[0] > losses[-1]
    learned = losses[0] - losses[-1]
    assert learned > 0.4 * (losses[0] - best), (losses, best)


@pytest.mark.parametrize("cut", [7, 3 * CHUNK, 3 * CHUNK + 5])
def test_a_run_that_was_cut_resumes_to_the_same_bits(cut: int, tmp_path: Path) -> None:
    """Three sources are interleaved, so that every third step is of the same chunk."""
    plan = recipe(steps=3 * CHUNK + 10)
    folder = RunFolder.create(tmp_path / "run", plan)

    class CutError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.step == cut:
            raise CutError

    with pytest.raises(CutError):
        weights_after(plan, folder, report=stop, report_every=1)
    state = folder.load_state(CPU)
    assert state is not None
    assert state.step == cut
    assert_same(weights_after(folder.recipe(), folder), weights_after(plan))


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_weights_that_learn_in_some_steps_only_resume_to_the_same_bits(optimiser: str, tmp_path: Path) -> None:
    """The gate learns in every fourth step, and the code of function values in none."""
    network = SMALL | {"experts": True, "separates_noise": True}
    plan = recipe(prior="step", steps=14, batch=2, most_context=6, targets=8, optimiser=optimiser, network=network)
    folder = RunFolder.create(tmp_path / "run", plan)

    class CutError(Exception):
        pass

    for cut in (2, 7, 9):

        def stop(progress: Progress, cut: int = cut) -> None:
            if progress.step == cut:
                raise CutError

        with pytest.raises(CutError):
            weights_after(plan, folder, report=stop, report_every=1)
    assert_same(weights_after(plan, folder), weights_after(plan))


def test_ctrl_c_in_the_middle_of_a_step_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed after the weights have moved and before their average has, it still leaves a state of whole steps."""
    plan = recipe()
    before = signal.getsignal(signal.SIGINT)  # a job in the background begins with it ignored
    folder = RunFolder.create(tmp_path / "run", plan)
    steps = 0
    plain = torch.optim.AdamW.step

    def pressed(self: torch.optim.AdamW, *arguments: object) -> object:
        nonlocal steps
        result = plain(self, *arguments)
        steps += 1
        if steps == 11:
            os.kill(os.getpid(), signal.SIGINT)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", pressed)
        with pytest.raises(KeyboardInterrupt):
            weights_after(plan, folder)
    state = folder.load_state(CPU)
    assert state is not None
    assert state.step == 11
    assert signal.getsignal(signal.SIGINT) is before
    assert_same(weights_after(folder.recipe(), folder), weights_after(plan))


def test_another_seed_is_another_run() -> None:
    first, second = weights_after(recipe(steps=2)), weights_after(recipe(steps=2, seed=1))
    assert any(not torch.equal(first[name], second[name]) for name in first)


def train_arguments(folder: Path, config: Path, steps: int) -> list[str]:
    config.write_text(
        f'prior = "se"\nsteps = {steps}\nbatch = 4\nwarmup = 5\n[network]\n'
        + "".join(f"{name} = {value}\n" for name, value in SMALL.items())
    )
    return ["--config", str(config), "--out", str(folder), "--device", "cpu", "--save-every", "5"]


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "model.safetensors")


def wait_for_step(folder: Path, step: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        state = folder / "state.safetensors"
        if state.exists():
            with safetensors.safe_open(state, framework="pt") as file:
                if int(file.metadata()["step"]) >= step:
                    return
        time.sleep(0.02)
    raise AssertionError(f"no state of step {step} appeared: {process.communicate()}")


@pytest.mark.parametrize("how", [signal.SIGKILL])
def test_a_killed_run_resumes_to_the_same_bits(how: signal.Signals, tmp_path: Path) -> None:
    """SIGKILL at some moment, or Ctrl-C: the resumed run ends with the weights of one that was left alone."""
    killed, alone = tmp_path / "killed", tmp_path / "alone"
    arguments = train_arguments(killed, tmp_path / "run.toml", steps=400)
    process = subprocess.Popen(command(*arguments), env=one_thread(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_step(killed, 20, process)
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    if how is signal.SIGINT:
        assert process.returncode == 130, err.decode()
        assert b"ndp train --resume" in out.replace(b"\n", b" ")
    assert not (killed / "model.safetensors").exists(), "the run ended before it could be stopped"
    subprocess.run(
        command("--resume", str(killed), "--device", "cpu"), env=one_thread(), check=True, capture_output=True
    )
    arguments = train_arguments(alone, tmp_path / "run.toml", steps=400)
    subprocess.run(command(*arguments), env=one_thread(), check=True, capture_output=True)
    assert_same(read_weights(killed), read_weights(alone))
    steps = [int(row["step"]) for row in csv.DictReader((killed / "log.csv").read_text().splitlines())]
    assert steps == sorted(set(steps)), "the log has every step once"


def test_the_learning_rate_warms_up_and_falls_to_nothing() -> None:
    plan = recipe(steps=1000, warmup=100, learning_rate=1e-3)
    rates = [schedule(plan, step, step / 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(1e-5, rel=0.01)
    assert max(rates) == pytest.approx(1e-3, rel=0.05)
    assert rates[500] == pytest.approx(0.5e-3, rel=0.01)
    assert rates[-1] < 1e-8


def test_ranks_chunks_and_seeds_have_seeds_of_their_own() -> None:
    seeds = {seed_of(seed, rank, chunk) for seed in range(5) for rank in range(5) for chunk in range(5)}
    assert len(seeds) == 125


def test_sources_are_interleaved_wherever_a_run_goes_on() -> None:
    """Momentum, which remembers twenty steps, then averages over all sources."""
    plan = recipe(dims=(1, 2), batch=2)
    inputs = TrainingInputs(make_sources(plan, CPU), plan, CPU, rank=0)
    last = 6 * CHUNK + 20  # of six sources, in their second chunks
    whole = list(islice(inputs.after(0), last))
    shapes = [one.x.shape for one in whole]
    assert len(set(shapes[:6])) == 6
    assert shapes == (shapes[:6] * last)[:last]
    for start in (5, 6 * CHUNK - 1, 6 * CHUNK + 13):
        for one, other in zip(inputs.after(start), whole[start:], strict=False):
            assert all(torch.equal(a, b) for a, b in zip(one.tensors(), other.tensors(), strict=True))
    values = {one.y0.sum().item() for one in whole}
    assert len(values) == last, "no two steps see the same functions"


def test_without_context_all_points_share_the_level_as_in_the_paper() -> None:
    plan = recipe(use_context=False, schedule=500, prediction="eps", error="l1")
    inputs = TrainingInputs(make_sources(plan, CPU), plan, CPU, rank=0).chunk(0, 0)[0]
    assert inputs.num_context == 0
    assert inputs.mask.all()
    assert (inputs.level == inputs.level[:, :1]).all()


def diverging(**changes: object) -> Recipe:
    return recipe(learning_rate=1e30, warmup=0, clip=math.inf, **changes)


def test_a_run_that_diverges_stops_and_says_what_to_do() -> None:
    with pytest.raises(
        FloatingPointError, match=r"the loss became nan before step 5\. Nothing was saved; start again with"
    ):
        weights_after(diverging(), report_every=5)


@pytest.mark.parametrize("report_every", [5, 10**6])
def test_a_run_that_diverges_keeps_its_last_good_state(report_every: int, tmp_path: Path) -> None:
    """The loss is looked at every few steps, and the weights whenever they are saved."""
    folder = RunFolder.create(tmp_path / "run", recipe(steps=10))
    weights_after(recipe(steps=10), folder)
    good = folder.load_state(CPU)
    assert good is not None
    with pytest.raises(
        FloatingPointError, match=r"The state of step 10 is kept; .* ndp train --resume .*/run --learning-rate"
    ):
        weights_after(diverging(steps=40), folder, report_every=report_every, save_every=7)
    kept = folder.load_state(CPU)
    assert kept is not None
    assert kept.step == 10
    assert_same(kept.tensors, good.tensors)


def test_weights_that_diverge_in_the_last_step_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a step is that of the weights before it, so no loss shows what the last step did."""
    plain = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *arguments: object) -> object:
        result = plain(self, *arguments)
        self.param_groups[0]["params"][0].data.fill_(math.nan)
        return result

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    for folder in (None, RunFolder.create(tmp_path / "run", recipe(steps=1))):
        with pytest.raises(
            FloatingPointError, match=r"holds NaN or infinity at step 1.* Nothing was saved; start again"
        ):
            weights_after(recipe(steps=1, warmup=0), folder)


@pytest.mark.parametrize("half", Half)
def test_half_precision_learns_the_same(half: Half) -> None:
    plan = recipe(steps=12)
    expected = weights_after(plan)
    model = make_model(plan)
    fit(model, make_sources(plan, CPU), plan, fabric=cpu(), half=half)
    found = model.network.state_dict()
    assert any(not torch.equal(found[name], value) for name, value in expected.items())
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0.05, atol=2e-3)


def test_a_gradient_that_is_too_large_for_half_precision_is_left_out_of_its_step() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimiser = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.0)
    infinite = torch.tensor([math.inf, 1.0])
    update = Update(
        lambda inputs, generator: (weight * infinite)[None],
        optimiser,
        [weight.detach().clone()],
        cpu(),
        ema=0.9,
        clip=1.0,
        on_graph=False,
        through_half=True,
    )
    nothing = torch.zeros(1, 1, 1)
    update(StepInputs(nothing, nothing, nothing[..., 0], nothing, None, 0), 0.1, 0)
    assert weight[0].item() == 1
    assert weight[1].item() == pytest.approx(0.9, abs=1e-3)


@pytest.mark.gpu
def test_captured_steps_on_the_gpu_move_weights_as_plain_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same functions on the same device: what captured steps leave out of the plain movement is rounding.

    Weights of a CPU are no measure: it draws other functions from the same seeds.
    """

    def trained(plan: Recipe) -> torch.Tensor:
        model = make_model(plan)
        fit(model, make_sources(plan, torch.device("cuda")), plan, fabric=Fabric(accelerator="cuda", devices=1))
        return torch.cat([weight.detach().cpu().flatten() for weight in model.network.state_dict().values()])

    plan = recipe(steps=16)
    captured, start = trained(plan), torch.cat([w.flatten() for w in make_model(plan).network.state_dict().values()])
    monkeypatch.setattr("ndp.training.loop._steps_on_graph", lambda model, fabric: False)
    plain, of_other_functions = trained(plan), trained(recipe(steps=16, prior="matern52"))
    moved = (plain - start).norm()
    off, other = ((weights - plain).norm() / moved for weights in (captured, of_other_functions))
    print(f"captured steps are off by {off:.1e} of the movement, those on functions of another prior by {other:.1e}")
    assert off < 0.01
    assert other > 0.1


def test_a_joint_model_that_was_cut_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """Independent and joint targets alternate; the cut is in the second chunk of each."""
    plan = recipe(model="joint", prior="minima", steps=2 * CHUNK + 12, batch=2, network=SMALL | {"anchor_points": 4})

    class CutError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.step >= 2 * CHUNK + 5:
            raise CutError

    folder = RunFolder.create(tmp_path / "run", plan)
    with pytest.raises(CutError):
        weights_after(plan, folder, report=stop, report_every=1)
    assert_same(weights_after(plan, folder), weights_after(plan))


def test_steps_that_overflowed_in_half_precision_do_not_end_a_run() -> None:
    losses = [torch.tensor(value) for value in (1.0, math.nan, 3.0)]
    assert _mean_loss(list(losses), 3, through_half=True) == 2.0
    for kept, through_half in ((losses, False), (losses[1:2], True)):
        with pytest.raises(FloatingPointError, match="the loss became nan before step 3"):
            _mean_loss(list(kept), 3, through_half=through_half)
