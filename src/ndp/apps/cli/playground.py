"""`ndp serve`: the playground."""

from typing import Annotated

import typer

from ndp.apps.cli.commands import app
from ndp.apps.cli.common import user_errors


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen at. The default can be reached from this machine only.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8000,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Serve the playground: a page on which points become functions. Ctrl-C ends it."""
    from rich.console import Console

    from ndp.core.memory import share_one_heap

    share_one_heap()  # the server lives long, and gives the memory of large requests back
    console = Console()
    with user_errors():
        with console.status("Importing torch"):
            from ndp.apps.playground import server

            server.check_free(host, port)
            listening = server.make_server(host=host, port=port)
        console.print(f"The playground is at [bold]{server.address(host, port)}[/]; Ctrl-C ends it.", soft_wrap=True)
        if not server.is_loopback(host):
            console.print(f"Warning: anybody on the network can use it, because of --host {host}.", soft_wrap=True)
        server.run(listening, host=host, port=port, open_page=open_page)
