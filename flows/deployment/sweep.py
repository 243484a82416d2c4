"""A sweep: the checkpoints that nothing was decided about, each asked for as a training job would have."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gradebook.flows.deployment.notify import DEPLOYMENT, MOST_TRIES, Notified, notify_checkpoint
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.operations.checkpoint_sweep import SavedCheckpoint, find_saved, query_saved, undecided


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Where to look, and who is to decide.

    place: a folder, a glob, or a file with a table. query: in place of it, SQL over the lake. parameters: of the
    deployment, beside the rubric and the map of columns.
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
    """What a sweep found. undecided: each with what became of asking for it; None where it was not asked for."""

    found_count: int
    undecided: tuple[tuple[SavedCheckpoint, Notified | None], ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """Which of them will not be decided about, and why."""
        unreadable = [f"{saved.name}: {saved.fault}" for saved, _ in self.undecided if saved.fault is not None]
        given_up = [
            f"{saved.name}: {MOST_TRIES} flow runs failed, the last {notified.flow_run_id}"
            for saved, notified in self.undecided
            if notified is not None and notified.is_given_up
        ]
        return (*unreadable, *given_up)

    @property
    def sentence(self) -> str:
        """How many there are, in words."""
        new_count = sum(notified is not None and notified.is_new for _, notified in self.undecided)
        asked = f"; {new_count:,} asked for now" if any(notified for _, notified in self.undecided) else ""
        return f"{self.found_count:,} found, {len(self.undecided):,} of them never decided about{asked}"

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        rows = [
            asdict(saved) | {"flow_run": None if notified is None else notified.as_json()}
            for saved, notified in self.undecided
        ]
        return {"found_count": self.found_count, "undecided": rows}


def sweep_saved(request: SweepRequest, *, is_notifying: bool) -> Swept:
    """Find what was never decided about by the rubric; where it is wanted, have each evaluated.

    Raises `InputError` for a request that is wrong, `UnfinishedError` where no server answers: it is gone for all of
    them, and the sweep begins anew the next time.
    """
    if (request.place is None) == (request.query is None):
        raise InputError("sweep: expected a folder, a glob or a table, or a query, and not both")
    lake = find_lake(request.lake, request.data)
    if request.query is not None:
        found = query_saved(lake, request.query)
    else:
        found = find_saved(request.place or "", request.model, request.pattern)
    left = undecided(lake, request.rubric, found, request.column_map)
    return Swept(len(found), tuple((saved, _asked(saved, request) if is_notifying else None) for saved in left))


def _asked(saved: SavedCheckpoint, request: SweepRequest) -> Notified | None:
    """The flow run of one checkpoint; None where its outputs can't be read."""
    if saved.fault is not None:
        return None
    named = {"rubric": request.rubric} | ({"column_map": dict(request.column_map)} if request.column_map else {})
    return notify_checkpoint(
        saved.outputs,
        saved.model,
        step=saved.step,
        checkpoint=saved.checkpoint,
        deployment=request.deployment,
        parameters={**request.parameters, **named},
    )
