"""pgbench as a load: the program beside the server's own, at full speed or at a rate, every transaction logged."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Logged", "Pgbench", "Throughput", "throughput"]


@dataclass(frozen=True)
class Throughput:
    """What one run at full speed reached."""

    per_second: float
    latencies: tuple[float, ...]
    """Seconds, of every transaction."""


@dataclass(frozen=True)
class Logged:
    """One transaction of one client; `ended` is the time of day in seconds."""

    client: int
    ended: float
    seconds: float


class Pgbench:
    """One run, as a process of ours. `script` is the name of a built-in one, or a file."""

    def __init__(
        self,
        binaries: Path,
        url: str,
        script: str | Path,
        seconds: float,
        clients: int,
        folder: Path,
        rate: float | None = None,
        protocol: str = "prepared",
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        chosen = f"--file={script}" if isinstance(script, Path) else f"--builtin={script}"
        arguments = [
            *("--no-vacuum", f"--protocol={protocol}", f"--client={clients}", f"--jobs={min(clients, 2)}"),
            *(f"--time={round(seconds)}", "--log", f"--log-prefix={self.folder}/log", "--random-seed=1", chosen),
            *([f"--rate={rate}"] if rate else []),
            url,
        ]
        self.output = self.folder / "output"
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [str(binaries / "pgbench"), *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def finish(self) -> str:
        """Wait for its end; what it says."""
        code = self.process.wait()
        text = self.output.read_text(errors="replace")
        if code != 0:
            raise AssertionError(f"pgbench failed:\n{text[-2000:]}")
        return text

    def stop(self) -> None:
        """For a run that is given up."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def logged(self) -> Sequence[Logged]:
        """Every transaction, by the files that its threads wrote."""
        found = []
        for path in self.folder.glob("log.*"):
            for line in path.read_text().splitlines():
                client, _, micros, _, epoch, fraction, *_ = line.split()
                found.append(Logged(int(client), int(epoch) + int(fraction) / 1e6, int(micros) / 1e6))
        return found


def throughput(
    binaries: Path, url: str, script: str, seconds: float, clients: int, folder: Path, protocol: str
) -> Throughput:
    """One run at full speed."""
    run = Pgbench(binaries, url, script, seconds, clients, folder, protocol=protocol)
    try:
        found = re.search(r"^tps = ([\d.]+)", run.finish(), re.MULTILINE)
    finally:
        run.stop()
    assert found is not None
    return Throughput(float(found[1]), tuple(one.seconds for one in run.logged()))
