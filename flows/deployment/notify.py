"""Requests of training jobs: one flow run of a deployment for each saved checkpoint, without waiting for it."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.tasks.system.prefect_settings import may_name_server, refuse_folder_settings

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

API_URL = "PREFECT_API_URL"
DEPLOYMENT = "evaluate-checkpoint/checkpoint"
SAVED = "checkpoint.saved"
TIMEOUT_S, RETRIES = 10.0, 2  # limits of one HTTP request, for which the training job waits
FILES = ("rubric", "judge", "ratings")  # parameters that may be paths
MOST_TRIES = 5  # most flow runs of one checkpoint, if they fail or crash
TAKEN_UP_S = 60  # time within which the server's automation resumes a crashed flow run


@dataclass(frozen=True, slots=True)
class Notified:
    """Outcome of a request. is_new: whether it created a flow run; state: of the flow run.

    is_given_up: whether this is the last of `MOST_TRIES` failed flow runs, so that no other is created.
    """

    flow_run_id: str
    url: str | None
    state: str
    is_new: bool
    is_given_up: bool
    deployment: str
    idempotency_key: str

    def as_json(self) -> dict[str, Any]:
        """JSON object printed by `--json`."""
        return asdict(self)


def notify_checkpoint(  # noqa: PLR0913 - one parameter for each fact about a checkpoint
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
    """Request the evaluation of a checkpoint's outputs; requests for the same content share one flow run.

    prompts, endpoint: the flow uses them to collect the missing outputs first. parameters: other parameters of the
    deployment that differ from its defaults. has_event: whether to send the event `checkpoint.saved` as well. After a
    flow run that failed, or crashed and was not resumed, a request creates another one, up to `MOST_TRIES`. Raises
    `InputError` if the outputs or the deployment do not exist, `UnfinishedError` if no server answers; never starts a
    server.
    """
    from gradebook.tasks.datasets.discovery import dataset_files, digest_files

    subject: dict[str, Any] = {"model": model, "checkpoint": checkpoint, "step": step, "outputs": _place(outputs)}
    if prompts is None and endpoint is None:
        digest = digest_files(dataset_files(outputs))
    else:
        collecting, digest = _collecting(subject, prompts, endpoint)
        subject |= collecting
    with _client() as client:
        deployed = _deployment(client, deployment)
        # A parameter with the deployment's own value does not change the work.
        differing = {
            name: value for name, value in (parameters or {}).items() if deployed.parameters.get(name) != value
        }
        changed_parameters = {
            name: _place(value) if _is_file(name, value) else value for name, value in differing.items()
        }
        key_parts = [deployment, model, step, checkpoint, digest, changed_parameters]
        key = digest_of(json.dumps(key_parts, sort_keys=True, default=str))
        notified = _ask(client, deployed, deployment, key, subject | changed_parameters)
    if has_event:
        _emit_saved(key, subject)
    return notified


def _collecting(subject: Mapping[str, Any], prompts: str | None, endpoint: str | None) -> tuple[dict[str, str], str]:
    """Parameters for collecting the outputs, and a digest of the prompts, the endpoint and the path to write.

    Raises `InputError` for faults that the flow would otherwise report later, on a worker.
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
    if is_settings_file(endpoint, Path()):
        endpoint = _place(endpoint)
        files.append(Path(endpoint))
    return {"prompts": prompts, "endpoint": endpoint}, f"{out} by {endpoint}: {digest_files(files)}"


def _place(path: str) -> str:
    """Absolute path or glob, as the worker needs it."""
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - Path would change a glob


def _is_file(name: str, value: object) -> bool:
    """Whether a parameter names a file on this machine."""
    return name in FILES and isinstance(value, str) and os.path.isfile(value)  # noqa: PTH113 - no error for a long name


def _ask(
    client: "SyncPrefectClient", deployed: "DeploymentResponse", deployment: str, key: str, parameters: dict[str, Any]
) -> Notified:
    """Find or create the flow run of a key; a failed flow run is replaced by a new one."""
    earlier = _run_of(client, deployed, key)
    for _ in range(MOST_TRIES - 1):
        if earlier is None or not _has_failed(earlier):
            break
        # The new key is derived from the failed run, so that two concurrent requests share one new run.
        key = digest_of(f"{key} after {earlier.id}")
        earlier = _run_of(client, deployed, key)
    if earlier is not None:
        return _notified(earlier, deployment, key, is_new=False)
    flow_run = client.create_flow_run_from_deployment(deployed.id, parameters=parameters, idempotency_key=key)
    return _notified(flow_run, deployment, key, is_new=True)


def _has_failed(run: "FlowRun") -> bool:
    """Whether a flow run failed, or crashed and was not resumed in time."""
    if run.state is None or not run.state.is_crashed():
        return run.state is not None and run.state.is_failed()
    return datetime.now(UTC) - run.state.timestamp > timedelta(seconds=TAKEN_UP_S)


def _run_of(client: "SyncPrefectClient", deployed: "DeploymentResponse", key: str) -> "FlowRun | None":
    from prefect.client.schemas.filters import (
        DeploymentFilter,
        DeploymentFilterId,
        FlowRunFilter,
        FlowRunFilterIdempotencyKey,
    )

    runs = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[key])),
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployed.id])),
        limit=1,
    )
    return runs[0] if runs else None


def _notified(run: "FlowRun", deployment: str, key: str, *, is_new: bool) -> Notified:
    from prefect.utilities.urls import url_for

    state = run.state.name if run.state and run.state.name else "unknown"
    is_given_up = (
        not is_new and run.state is not None and run.state.is_failed()
    )  # otherwise `_ask` creates another flow run
    return Notified(str(run.id), url_for("flow-run", obj_id=run.id), state, is_new, is_given_up, deployment, key)


def _deployment(client: "SyncPrefectClient", name: str) -> "DeploymentResponse":
    """Read a deployment by name. Raises `InputError` if the server has none of that name."""
    from prefect.exceptions import ObjectNotFound

    if name.count("/") != 1:
        raise InputError("--deployment", repr(name), f"FLOW/DEPLOYMENT, such as {DEPLOYMENT}")
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        missing = f"no {name!r} on {client.api_url}"
        raise InputError("--deployment", missing, "one that `prefect deploy` made there") from None


@contextmanager
def _client() -> "Iterator[SyncPrefectClient]":
    """Open a client of the server in Prefect's settings.

    Raises `InputError` if none is set, `UnfinishedError` if none answers.
    """
    refuse_folder_settings(os.environ)
    no_server = InputError(API_URL, "none", "the address of a Prefect server, such as http://127.0.0.1:4200/api")
    if "prefect" not in sys.modules and not may_name_server(os.environ):  # Prefect's import takes over a second
        raise no_server
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    address = PREFECT_API_URL.value()
    if not address:  # Prefect would start a server inside the training job
        raise no_server
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: RETRIES}),
            get_client(sync_client=True, httpx_settings={"timeout": TIMEOUT_S}) as client,
        ):
            yield client
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        refusal = f"the Prefect server at {address} answers {status}: {_refusal_text(error.response)}"
        if status in (400, 409, 422):  # the request is wrong, so a retry would not help
            raise InputError("notify", refusal) from None
        raise UnfinishedError(f"notify: {refusal}") from None
    except (httpx.HTTPError, RuntimeError, OSError) as error:
        raise UnfinishedError(
            f"notify: no Prefect server answers at {address} ({type(error).__name__}: {error}); "
            "run `gradebook suite sweep` later to request the evaluation"
        ) from None


def _refusal_text(response: Any) -> str:
    """Reason that a server gives for an error, cut to 500 characters."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    return str(body.get("detail", body) if isinstance(body, dict) else body)[:500]


def _emit_saved(key: str, subject: Mapping[str, Any]) -> None:
    """Send the event `checkpoint.saved`; its id depends on the key alone. The flow run does not need the event."""
    from prefect.events import emit_event

    model = str(subject["model"])
    emit_event(
        SAVED,
        resource={"prefect.resource.id": f"training.{model}", "prefect.resource.name": model},
        payload=dict(subject),
        id=uuid5(NAMESPACE_URL, f"gradebook {SAVED} {key}"),
    )
