"""What `ndp serve` takes: seconds from a click to functions, and many clients at once."""

import json
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands import app
from ndp.apps.cli.common import require, told_plainly


@app.command("playground-speed")
def playground_speed(
    clicks: Annotated[int, typer.Option(min=1, help="How often to click.")] = 40,
    draws: Annotated[int, typer.Option(min=1, max=64, help="Functions to draw.")] = 32,
    calls: Annotated[int, typer.Option(min=2, max=30, help="Solver calls a draw.")] = 7,
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/playground-speed.json"),
) -> None:
    """Milliseconds from a click in a real browser to functions at rest (needs Chromium and playwright)."""
    from dataclasses import asdict

    from rich.console import Console

    console = Console()
    with told_plainly():
        require("fastapi", "uvicorn", "playwright", extra="dev")
        with console.status("Importing") as status:
            from benchmarks.playground import measure_speed
            from ndp.core.io.files import atomic_write

            speed = measure_speed(clicks=clicks, draws=draws, calls=calls, tell=status.update)
        with atomic_write(out) as temporary:
            temporary.write_text(json.dumps(asdict(speed), indent=1) + "\n")
    console.print(
        f"{draws} draws of {speed.points} points in {calls} solver calls: median [bold]{speed.median:.0f} ms[/], "
        f"95th percentile [bold]{speed.p95:.0f} ms[/] of {clicks} clicks; first paint after {speed.first_paint:.0f} ms"
    )


@app.command("playground-load")
def playground_load(
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 50,
    seconds: Annotated[float, typer.Option(min=1.0, help="For how long.")] = 60.0,
    out: Annotated[Path, typer.Option(help="Where to write the numbers.")] = Path("results/playground-load.json"),
) -> None:
    """Many clients at once: errors, seconds an answer, and the server's memory over time."""
    from dataclasses import asdict

    from rich.console import Console

    console = Console()
    with told_plainly():
        require("fastapi", "uvicorn", extra="serve")
        with console.status("Importing") as status:
            from benchmarks.playground import measure_load
            from ndp.core.io.files import atomic_write

            load = measure_load(clients=clients, seconds=seconds, tell=status.update)
        with atomic_write(out) as temporary:
            temporary.write_text(json.dumps(asdict(load), indent=1) + "\n")
    console.print(
        f"{load.clients} clients for {load.seconds:.0f} s: [bold]{load.answers}[/] answers, [bold]{load.errors}[/] errors; "
        f"median {load.median_seconds:.2f} s, 95th percentile {load.p95_seconds:.2f} s; "
        f"memory {load.memory_early:.0f} MB, at the end {load.memory_late:.0f} MB"
    )
    if load.errors:
        raise typer.Exit(code=1)
