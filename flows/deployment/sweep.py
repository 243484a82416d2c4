"""Sweep for checkpoints without a decision, which can request their evaluation as a training job does."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gradebook.flows.deployment.notify import DEPLOYMENT, MOST_TRIES, Notified, notify_checkpoint
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.checkpoint_decisions import SavedCheckpoint, find_saved, query_saved, without_decision


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Location of checkpoints, and the rubric and deployment that decide about them.

    place: a folder, a glob, or a file with a table. query: SQL over the lake instead of a place. parameters: of the
    deployment, besides the rubric and the column map.
    """

    rubric: str
    lake: str
    place: str | None = None
    query: str | None = None
    model: str | None = None
    pattern: str | None = None
    deployment: str = DEPLOYMENT
    parameters: Mapping[str, Any] = field(default_factory=dict)
    column_map: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a sweep. undecided: each checkpoint with its flow run, or None if no flow run was requested."""

    found_count: int
    undecided: tuple[tuple[SavedCheckpoint, Notified | None], ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on checkpoints that will get no decision, with the reasons."""
        unreadable = [f"{saved.name}: {saved.fault}" for saved, _ in self.undecided if saved.fault is not None]
        given_up = [
            f"{saved.name}: {MOST_TRIES} flow runs failed, most recently {notified.flow_run_id}"
            for saved, notified in self.undecided
            if notified is not None and notified.is_given_up
        ]
        return (*unreadable, *given_up)

    @property
    def sentence(self) -> str:
        new_count = sum(notified is not None and notified.is_new for _, notified in self.undecided)
        requested = f"; {new_count:,} requested now" if any(notified for _, notified in self.undecided) else ""
        checkpoints = counted(self.found_count, "checkpoint")
        return f"{checkpoints} found, {len(self.undecided):,} of them without a decision{requested}"

    def as_json(self) -> dict[str, Any]:
        rows = [
            asdict(saved) | {"flow_run": None if notified is None else notified.as_json()}
            for saved, notified in self.undecided
        ]
        return {"found_count": self.found_count, "undecided": rows}


def sweep_saved(request: SweepRequest, *, is_notifying: bool) -> Swept:
    """Find the checkpoints without a decision by the rubric; with is_notifying, request an evaluation of each.

    Raises `InputError` for a wrong request, and `UnfinishedError` if no server answers; the same sweep may be repeated.
    """
    if (request.place is None) == (request.query is None):
        fault = "neither a place nor a query" if request.place is None else "both a place and a query"
        raise InputError("sweep", fault, "a folder, a glob or a table, or a query")
    lake = find_lake(request.lake, request.data)
    if request.query is not None:
        saved_now = query_saved(lake, request.query)
    else:
        saved_now = find_saved(request.place or "", request.model, request.pattern)
    to_decide = without_decision(lake, request.rubric, saved_now, request.column_map)
    return Swept(
        len(saved_now), tuple((saved, _submit(saved, request) if is_notifying else None) for saved in to_decide)
    )


def _submit(saved: SavedCheckpoint, request: SweepRequest) -> Notified | None:
    """Request the flow run of one checkpoint; returns None if its outputs can't be read."""
    if saved.fault is not None:
        return None
    rubric_parameters = {"rubric": request.rubric} | (
        {"column_map": dict(request.column_map)} if request.column_map else {}
    )
    return notify_checkpoint(
        saved.outputs,
        saved.model,
        step=saved.step,
        checkpoint=saved.checkpoint,
        deployment=request.deployment,
        parameters={**request.parameters, **rubric_parameters},
    )
