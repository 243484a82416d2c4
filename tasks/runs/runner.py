"""Runners of checks and schemas: threads, or the workers of a cluster."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.prefect_settings import read_api_url

SETTING = "GRADEBOOK_TASK_RUNNER"  # used without --runner; a deployment sets it in its job variables
THREADS = "threads"
CLUSTERS = {"dask": "prefect_dask", "ray": "prefect_ray"}  # with the package of the extra of the same name
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_EXPECTED = "threads, dask, dask:ADDRESS, ray or ray:ADDRESS"


@dataclass(frozen=True, slots=True)
class Runner:
    """Runner of checks and schemas. address: of a running cluster; None to start one for the run."""

    kind: str
    address: str | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether workers may be on other machines."""
        return self.kind in CLUSTERS

    @property
    def name(self) -> str:
        """Option and value, for messages."""
        return f"--runner {self.kind}" + (f":{self.address}" if self.address else "")


def read_runner(text: str | None) -> Runner:
    """Parse a runner; None: from the environment, or threads. Raises `InputError`."""
    setting = text or os.environ.get(SETTING) or THREADS
    kind, colon, address = setting.partition(":")
    is_known = kind in CLUSTERS if colon else kind in {THREADS, *CLUSTERS}
    if not is_known or (colon and not address):
        raise InputError("--runner", repr(setting), _EXPECTED)
    if kind in CLUSTERS and find_spec(CLUSTERS[kind]) is None:
        package = CLUSTERS[kind].replace("_", "-")
        hint = f"pip install '.[{kind}]' in gradebook's clone"
        raise InputError(f"--runner {kind}", f"no {package}", "it to be installed", hint)
    return Runner(kind, address or None)


def refuse_unreachable_server(runner: Runner) -> None:
    """Raise `InputError` if workers of a cluster on other machines can't reach Prefect's server."""
    host = split_address(runner.address or "localhost").hostname
    if not runner.is_cluster or host in {*_LOOPBACK, "auto"}:
        return
    server = read_api_url()
    if urlsplit(server).hostname in {*_LOOPBACK, None}:
        raise InputError(
            runner.name,
            f"PREFECT_API_URL {server or 'unset'}, which workers on other machines can't reach",
            "the address of a Prefect server that they can reach",
        )


def split_address(address: str) -> SplitResult:
    """Parts of a cluster's address; one without a scheme is HOST:PORT."""
    return urlsplit(address if "://" in address else f"//{address}")
