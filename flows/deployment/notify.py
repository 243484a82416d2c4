"""How a training job tells of a checkpoint: it asks a Prefect server for one run of a deployment, and goes on."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from gradebook.rubrics.model.errors import InputError, UnfinishedError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

DEPLOYMENT = "evaluate-checkpoint/checkpoint"
SAVED = "checkpoint.saved"
TIMEOUT_S, RETRIES = 10.0, 2  # of one request: a training job waits for it
FILES = ("rubric", "judge", "ratings")  # parameters that may be paths
MOST_TRIES = 5  # of one checkpoint whose runs fail or crash
TAKEN_UP_S = 60  # within which the server's automation takes up a run that crashed


@dataclass(frozen=True, slots=True)
class Notified:
    """What became of a notice. is_new: whether it began a flow run; state: the flow run's.

    is_given_up: whether that is the last of `MOST_TRIES` flow runs that failed: there will be no other.
    """

    flow_run_id: str
    url: str | None
    state: str
    is_new: bool
    is_given_up: bool
    deployment: str
    idempotency_key: str

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        return asdict(self)


def notify_checkpoint(  # noqa: PLR0913 - what a training job may know
    outputs: str,
    model: str,
    *,
    step: int | None = None,
    checkpoint: str | None = None,
    prompts: str | None = None,
    endpoint: str | None = None,
    deployment: str = DEPLOYMENT,
    parameters: Mapping[str, Any] | None = None,
    has_event: bool = False,
) -> Notified:
    """Ask for the evaluation of a checkpoint's outputs; asked again for the same content, it is the same flow run.

    prompts, endpoint: by these the flow collects the outputs first, which are not there yet. parameters: what else of
    the deployment's differs. has_event: whether the event `checkpoint.saved` is sent too. A flow run that failed, or
    crashed and was not taken up, is followed by another one, `MOST_TRIES` at most.
    Raises `InputError` where the outputs or the deployment are not there, `UnfinishedError` where no server answers:
    none is ever started here.
    """
    from gradebook.tasks.datasets.discovery import dataset_files, digest_files

    subject: dict[str, Any] = {"model": model, "checkpoint": checkpoint, "step": step, "outputs": _place(outputs)}
    if prompts is None and endpoint is None:
        digest = digest_files(dataset_files(outputs))
    else:
        served, digest = _served(subject, prompts, endpoint)
        subject |= served
    with _client() as client:
        found = _deployment(client, deployment)
        # A parameter that says what the deployment says anyway asks for the same work.
        differing = {name: value for name, value in (parameters or {}).items() if found.parameters.get(name) != value}
        others = {name: _place(value) if _is_file(name, value) else value for name, value in differing.items()}
        parts = [deployment, model, step, checkpoint, digest, others]
        key = blake2b(json.dumps(parts, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()
        notified = _ask(client, found, deployment, key, subject | others)
    if has_event:
        _emit_saved(key, subject)
    return notified


def _served(subject: Mapping[str, Any], prompts: str | None, endpoint: str | None) -> tuple[dict[str, str], str]:
    """The parameters by which outputs are collected, and the digest of all that they are asked by.

    Raises `InputError` for what the flow would refuse, once a worker has it.
    """
    from gradebook.rubrics.model.collecting import refuse_incomplete
    from gradebook.tasks.collecting.reply_store import ReplyFolder, refuse_other_format
    from gradebook.tasks.datasets.discovery import dataset_files, digest_files
    from gradebook.tasks.judging.settings.files import is_settings_file

    refuse_incomplete(prompts, endpoint, subject["checkpoint"], subject["step"])
    prompts, endpoint, out = _place(prompts or ""), endpoint or "", Path(subject["outputs"])
    refuse_other_format(out, "outputs")
    ReplyFolder(out).refuse_foreign("outputs")
    files = [*dataset_files(prompts)]
    if is_settings_file(Path(endpoint)):
        endpoint = _place(endpoint)
        files.append(Path(endpoint))
    return {"prompts": prompts, "endpoint": endpoint}, f"{out} by {endpoint}: {digest_files(files)}"


def _place(path: str) -> str:
    """A path, or a glob, as the worker finds it."""
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - Path would mend a glob


def _is_file(name: str, value: object) -> bool:
    """Whether a parameter names a file that is here; the deployment's own words are those of its worker."""
    return name in FILES and isinstance(value, str) and os.path.isfile(value)  # noqa: PTH113 - no error for a long name


def _ask(
    client: "SyncPrefectClient", found: "DeploymentResponse", deployment: str, key: str, parameters: dict[str, Any]
) -> Notified:
    """The flow run of the key: the one that there is, unless it ended without its work, or a new one."""
    earlier = _run_of(client, found, key)
    for _ in range(MOST_TRIES - 1):
        if earlier is None or not _is_over(earlier):
            break
        # Made of the run that failed: two that ask at once still ask for one.
        key = blake2b(f"{key} after {earlier.id}".encode(), digest_size=16).hexdigest()
        earlier = _run_of(client, found, key)
    if earlier is not None:
        return _notified(earlier, deployment, key, is_new=False)
    made = client.create_flow_run_from_deployment(found.id, parameters=parameters, idempotency_key=key)
    return _notified(made, deployment, key, is_new=True)


def _is_over(run: "FlowRun") -> bool:
    """Whether it ended without its work, and does not go on."""
    if run.state is None or not run.state.is_crashed():
        return run.state is not None and run.state.is_failed()
    return datetime.now(UTC) - run.state.timestamp > timedelta(seconds=TAKEN_UP_S)


def _run_of(client: "SyncPrefectClient", found: "DeploymentResponse", key: str) -> "FlowRun | None":
    from prefect.client.schemas.filters import (
        DeploymentFilter,
        DeploymentFilterId,
        FlowRunFilter,
        FlowRunFilterIdempotencyKey,
    )

    runs = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[key])),
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[found.id])),
        limit=1,
    )
    return runs[0] if runs else None


def _notified(run: "FlowRun", deployment: str, key: str, *, is_new: bool) -> Notified:
    from prefect.utilities.urls import url_for

    state = run.state.name if run.state and run.state.name else "unknown"
    is_given_up = not is_new and run.state is not None and run.state.is_failed()  # else another one would follow
    return Notified(str(run.id), url_for("flow-run", obj_id=run.id), state, is_new, is_given_up, deployment, key)


def _deployment(client: "SyncPrefectClient", name: str) -> "DeploymentResponse":
    """The deployment of that name. Raises `InputError` where the server has none."""
    from prefect.exceptions import ObjectNotFound

    if name.count("/") != 1:
        raise InputError(f"--deployment: found {name!r}, expected FLOW/DEPLOYMENT, such as {DEPLOYMENT}")
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        raise InputError(
            f"--deployment: found no {name!r} on {client.api_url}, expected one that `prefect deploy` made there"
        ) from None


@contextmanager
def _client() -> "Iterator[SyncPrefectClient]":
    """A client of the server that Prefect's settings name. Raises `UnfinishedError` where none is named or answers."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    address = PREFECT_API_URL.value()
    if not address:  # Prefect would start a server inside the training job
        raise UnfinishedError("notify: found no PREFECT_API_URL, expected the address of a Prefect server")
    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: RETRIES}),
            get_client(sync_client=True, httpx_settings={"timeout": TIMEOUT_S}) as client,
        ):
            yield client
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        refusal = f"notify: the Prefect server at {address} answers {status}: {_said(error.response)}"
        if status in (400, 409, 422):  # what was asked is wrong, and is wrong the next time too
            raise InputError(refusal) from None
        raise UnfinishedError(refusal) from None
    except (httpx.HTTPError, RuntimeError, OSError) as error:
        raise UnfinishedError(
            f"notify: no Prefect server answers at {address} ({type(error).__name__}: {error}); "
            "expected one: `gradebook sweep` finds later what it was not told of"
        ) from None


def _said(response: Any) -> str:
    """What a server says is wrong, in at most a few words."""
    try:
        told = response.json()
    except ValueError:
        told = response.text
    return str(told.get("detail", told) if isinstance(told, dict) else told)[:500]


def _emit_saved(key: str, subject: Mapping[str, Any]) -> None:
    """Send the event to whoever listens; it has one id, however often it is sent. A lost one loses no work."""
    from prefect.events import emit_event

    model = str(subject["model"])
    emit_event(
        SAVED,
        resource={"prefect.resource.id": f"training.{model}", "prefect.resource.name": model},
        payload=dict(subject),
        id=uuid5(NAMESPACE_URL, f"gradebook {SAVED} {key}"),
    )
