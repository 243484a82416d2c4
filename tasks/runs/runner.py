"""Where checks and schemas are computed: in this process, in processes beside it, or by the workers of a cluster."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.prefect_blocks import read_api_url

SETTING = "GRADEBOOK_TASK_RUNNER"  # for who gives no --runner: a deployment sets it in its job variables
THREADS, PROCESSES = "threads", "processes"
CLUSTERS = {"dask": "prefect_dask", "ray": "prefect_ray"}  # and the packages that an extra of the same name installs
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_EXPECTED = "expected threads, processes, dask, dask:ADDRESS, ray or ray:ADDRESS"


@dataclass(frozen=True, slots=True)
class Runner:
    """One such place. address: of a cluster that is there; None for one that is started beside the run."""

    kind: str
    address: str | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether the work goes to workers that may be on other machines."""
        return self.kind in CLUSTERS

    @property
    def name(self) -> str:
        """What messages call it, and what was typed."""
        return f"--runner {self.kind}" + (f":{self.address}" if self.address else "")


def read_runner(text: str | None) -> Runner:
    """Read a runner's words; None: those of the environment, or threads. Raises `InputError`."""
    words = text or os.environ.get(SETTING) or THREADS
    kind, colon, address = words.partition(":")
    is_known = kind in CLUSTERS if colon else kind in {THREADS, PROCESSES, *CLUSTERS}
    if not is_known or (colon and not address):
        raise InputError(f"--runner: found {words!r}, {_EXPECTED}")
    if kind in CLUSTERS and find_spec(CLUSTERS[kind]) is None:
        package = CLUSTERS[kind].replace("_", "-")
        raise InputError(f"--runner {kind}: found no {package}, expected it: pip install 'gradebook[{kind}]'")
    return Runner(kind, address or None)


def refuse_unreachable_server(runner: Runner) -> None:
    """Raise `InputError` where the workers of a cluster elsewhere could not reach Prefect's server."""
    host = split_address(runner.address or "localhost").hostname
    if not runner.is_cluster or host in {*_LOOPBACK, "auto"}:
        return
    server = read_api_url()
    if urlsplit(server).hostname in {*_LOOPBACK, None}:
        raise InputError(
            runner.name,
            f"PREFECT_API_URL {server or 'unset'}, which workers on other machines can't reach",
            "the address of a Prefect server that they can",
        )


def split_address(address: str) -> SplitResult:
    """Parts of a cluster's address; one without a scheme is HOST:PORT."""
    return urlsplit(address if "://" in address else f"//{address}")
