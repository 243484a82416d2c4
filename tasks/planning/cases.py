"""Cases of a shard, as stored and as shown to a judge."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.model.methods import Sees
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.steps import read_stored_steps
from gradebook.rubrics.prompts.media import media_digest
from gradebook.rubrics.prompts.prompt import Case, sees_of
from gradebook.rubrics.prompts.trajectory import trajectory_of
from gradebook.tasks.datasets.case_criteria import read_case_criteria
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.judging.money.prices import MEDIA_BYTES_PER_TOKEN
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

CASE_COLUMNS = ["output_id", "prompt", "output", "reference", "context"]
_SEES = '"sees":'  # in the body of a criterion that is judged by more than the answer
CHANGED = "unreadable_media: found other images or sounds than when the run was planned"
_PLANNED_SCHEMA = pa.schema([pa.field("output_id", pa.string()), pa.field("media_digest", pa.string())])


def read_stored_cases(shard: str, *, with_steps: bool = False) -> Iterator[tuple[str, Case]]:
    """Output id and case of each row of a shard, as stored; one batch in memory at a time."""
    columns = [*CASE_COLUMNS, "steps"] if with_steps else CASE_COLUMNS
    with pq.ParquetFile(shard) as file:
        for batch in file.iter_batches(batch_size=500 if with_steps else 2_000, columns=columns):
            for output_id, prompt, output, reference, context, *steps in zip(
                *(batch.column(name).to_pylist() for name in columns), strict=True
            ):
                shown = trajectory_of(read_stored_steps(steps[0]) if steps else None, output)
                yield output_id, Case(prompt, output, reference, tuple(context or ()), trajectory=shown)


def views_of(judged: Iterable[Criterion], folder: RunFolder, shard_index: int) -> frozenset[Sees]:
    """What the judged criteria of a shard see, those that its rows bring included."""
    table = read_case_criteria(folder, shard_index)
    bodies = pc.unique(table.column("body").filter(pc.equal(table.column("method"), "judge")))
    own = bodies.filter(pc.match_substring(bodies, _SEES)).to_pylist()
    return frozenset(map(sees_of, (*judged, *map(read_case_criterion, own)))) | {"answer"}


def read_cases(shard: str) -> Iterator[tuple[str, Case]]:
    """As `read_stored_cases`, with placeholders in place of images and sounds."""
    unseen = MediaFiles(())
    for output_id, case in read_stored_cases(shard):
        yield output_id, replace(unseen.show(case), media=(), media_fault=None)


def plan_cases(
    shard: str, shard_index: int, folder: RunFolder, folders: tuple[Path, ...] | None, *, with_steps: bool = False
) -> Iterator[tuple[str, Case]]:
    """As `read_stored_cases`, but as shown to a judge; the media digests are written to the run's folder.

    folders: of the dataset's files; None: texts as stored.
    """
    if folders is None:
        yield from read_stored_cases(shard, with_steps=with_steps)
        return
    media = MediaFiles(folders)
    planned: list[dict[str, str]] = []
    for output_id, case in read_stored_cases(shard, with_steps=with_steps):
        shown = media.show(case)
        if digest := media_digest(shown.media, shown.media_fault):
            planned.append({"output_id": output_id, "media_digest": digest})
        yield output_id, shown
    file = _media_file(folder, shard_index)
    if planned:
        write_parquet(file, pa.Table.from_pylist(planned, _PLANNED_SCHEMA))
    else:
        file.unlink(missing_ok=True)


class PlannedMedia:
    """Cases of a planned shard, whose images and sounds are checked against the plan's digests."""

    def __init__(self, shard_index: int, folder: RunFolder, folders: tuple[Path, ...] | None) -> None:
        file = _media_file(folder, shard_index)
        self._media = None if folders is None else MediaFiles(folders)
        planned = pq.read_table(file).to_pylist() if self._media and file.exists() else []
        self._digests = {row["output_id"]: row["media_digest"] for row in planned}

    def show(self, output_id: str, case: Case) -> Case:
        """Case as shown to a judge; with a fault if its media changed since the plan."""
        planned = self._digests.get(output_id)
        if self._media is None or planned is None:  # the plan found no media in its texts
            return case
        shown = self._media.show(case)
        if shown.media_fault is None and media_digest(shown.media, None) != planned:
            # Placeholders stay in the text, as labels depend on it.
            return replace(shown, media=(), media_fault=CHANGED)
        return shown


def _media_file(folder: RunFolder, shard_index: int) -> Path:
    return folder.path / "media" / f"shard-{shard_index:05d}.parquet"


def media_bytes(case: Case) -> int:
    """Bytes counted for the images and sounds of a case."""
    return sum(medium.usual_tokens for medium in case.media) * MEDIA_BYTES_PER_TOKEN
