"""The server of the page in a process of its own."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path


@contextmanager
def running_server(log: Path = Path(os.devnull)) -> Iterator[tuple[int, int]]:
    """`ndp serve` in a process of its own on a free port, with its errors in `log`; yields the port and the process's id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "ndp", "serve", "--no-open", "--port", str(port)]
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors) as process:
        try:
            deadline = time.monotonic() + 120
            while not _is_up(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise OSError("the server did not start; `ndp serve` says why")
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            process.kill()


def memory_of(process: int) -> float:
    """Resident memory in MB; NaN where the system does not report it."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _is_up(port: int) -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=2)) as connection:
            connection.request("GET", "/api/health")
            return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
