"""Two processes on the CPU: functions of their own on every rank, one gradient, and a run that resumes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

SMALL = "width = 16\nheads = 2\nblocks = 1\nlevel_width = 8\n"


def launch(*arguments: str) -> subprocess.Popen[str]:
    """Two ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


def torchrun(*arguments: str) -> str:
    """Run to the end; what was printed."""
    process = launch(*arguments)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err[-3000:]
    return out


def processes_of(folder: Path) -> list[int]:
    """The launcher and the ranks of a run: each has the folder on its command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        if str(folder) in command:
            found.append(int(entry.parent.name))
    return found


def test_the_averaged_gradient_is_that_of_the_union_batch(tmp_path: Path) -> None:
    script = tmp_path / "gradient.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch
            from lightning_fabric import Fabric
            from ndp.diffusion.objective import denoising_loss
            from ndp.training.build import make_model, make_sources
            from ndp.training.config import Recipe
            from ndp.training.batches import TrainingInputs

            fabric = Fabric(accelerator="cpu", devices=2)
            fabric.launch()
            recipe = Recipe(prior="se", batch=8, network={"width": 16, "heads": 2, "blocks": 1, "level_width": 8})
            cpu = torch.device("cpu")

            def network():
                made = make_model(recipe).network
                torch.nn.init.normal_(made.out.weight, generator=torch.Generator().manual_seed(0))
                return made

            def batch(rank):
                return TrainingInputs(make_sources(recipe, cpu), recipe, cpu, rank).chunk(0, 0)[0]

            def loss(of, inputs):
                x, y0, level, eps, mask = inputs.tensors()
                return denoising_loss(of, x, y0, level, eps, mask=mask, num_context=inputs.num_context)

            shared = network()
            wrapped = fabric.setup(shared)
            fabric.backward(loss(wrapped, batch(fabric.global_rank)).mean())
            alone = network()
            batches = [batch(0), batch(1)]
            assert not torch.equal(batches[0].y0, batches[1].y0), "every rank has functions of its own"
            torch.cat([loss(alone, inputs) for inputs in batches]).mean().backward()
            for ours, theirs in zip(shared.parameters(), alone.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)
            print("same gradient on rank", fabric.global_rank)
            """
        )
    )
    assert torchrun(str(script)).count("same gradient on rank") == 2


def test_a_killed_distributed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(f'prior = "se"\nsteps = 400\nbatch = 4\nwarmup = 5\n[network]\n{SMALL}')

    def arguments(folder: Path) -> list[str]:
        options = ["--config", str(config), "--out", str(folder), "--device", "cpu", "--save-every", "5"]
        return ["-m", "ndp", "train", *options]

    killed, alone = tmp_path / "killed", tmp_path / "alone"
    process = launch(*arguments(killed))
    deadline = time.monotonic() + 100
    while not (killed / "state.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for rank in processes_of(killed):
        os.kill(rank, signal.SIGKILL)
    process.communicate()
    assert not (killed / "model.safetensors").exists(), "the run ended before it could be killed"
    torchrun("-m", "ndp", "train", "--resume", str(killed), "--device", "cpu")
    torchrun(*arguments(alone))
    found, expected = (safetensors.torch.load_file(folder / "model.safetensors") for folder in (killed, alone))
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo"),
    pytest.mark.skipif(not Path("/proc").exists(), reason="finds the processes of a run in /proc"),
]
