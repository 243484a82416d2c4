"""Cases of a shard, as stored and as shown to a judge."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.steps import read_stored_steps
from gradebook.rubrics.prompts.media import media_digest
from gradebook.rubrics.prompts.prompt import Case, View, view_of
from gradebook.rubrics.prompts.trajectory import trajectory_of
from gradebook.tasks.datasets.case_criteria import read_case_criteria
from gradebook.tasks.datasets.media import MediaFiles, audio_of
from gradebook.tasks.judging.prices import MEDIA_BYTES_PER_TOKEN
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

CASE_COLUMNS = ["output_id", "prompt", "output", "reference", "context"]
_VIEWS = '"sees":|"field":'  # text in a stored criterion whose judge sees more or less than the answer
CHANGED = "unreadable_media: found other images or sounds than when the run was planned"
_PLANNED_SCHEMA = pa.schema([pa.field("output_id", pa.string()), pa.field("media_digest", pa.string())])


def read_stored_cases(shard: str, *, with_audio: bool = False, with_steps: bool = False) -> Iterator[tuple[str, Case]]:
    """Output id and case of each row of a shard, as stored; one batch in memory at a time.

    with_audio: include the names of transcripts' sounds. with_steps: include the steps of agents.
    """
    columns = [*CASE_COLUMNS, *(["metadata"] if with_audio else []), *(["steps"] if with_steps else [])]
    with pq.ParquetFile(shard) as file:
        for batch in file.iter_batches(batch_size=500 if with_steps else 2_000, columns=columns):
            values = (batch.column(name).to_pylist() for name in columns)
            for output_id, prompt, output, reference, context, *extras in zip(*values, strict=True):
                audio = audio_of(extras[0]) if with_audio else None
                steps = trajectory_of(read_stored_steps(extras[-1]), output) if with_steps else None
                yield output_id, Case(prompt, output, reference, tuple(context or ()), audio=audio, trajectory=steps)


def views_of(judged: Iterable[Criterion], folder: RunFolder, shard_index: int) -> frozenset[View]:
    """Views of a shard's judged criteria, per-case criteria included."""
    table = read_case_criteria(folder, shard_index)
    bodies = pc.unique(table.column("body").filter(pc.equal(table.column("method"), "judge")))
    own_bodies = bodies.filter(pc.match_substring_regex(bodies, _VIEWS)).to_pylist()
    return frozenset(map(view_of, (*judged, *map(read_case_criterion, own_bodies)))) | {View()}


def read_cases(shard: str, *, with_steps: bool = False) -> Iterator[tuple[str, Case]]:
    """Output id and case of each row of a shard, with placeholders in place of images and sounds."""
    placeholders = MediaFiles(())
    for output_id, case in read_stored_cases(shard, with_steps=with_steps):
        shown_case = placeholders.show(case)
        yield output_id, case if shown_case is case else replace(shown_case, media=(), media_fault=None)


def plan_cases(
    shard: str,
    shard_index: int,
    folder: RunFolder,
    folders: tuple[Path, ...] | None,
    *,
    is_heard: bool = False,
    with_steps: bool = False,
) -> Iterator[tuple[str, Case]]:
    """Output id and case of each row of a shard, as shown to a judge; writes the media digests to the run's folder.

    folders: of the dataset's files; None: texts as stored. is_heard: as shown for criteria that hear the row's sound.
    """
    if folders is None and not is_heard:
        yield from read_stored_cases(shard, with_steps=with_steps)
        return
    media = MediaFiles(folders or ())
    planned: list[dict[str, str]] = []
    for output_id, case in read_stored_cases(shard, with_audio=is_heard, with_steps=with_steps):
        shown_case = media.hear(media.show(case)) if is_heard else media.show(case)
        if digest := media_digest(shown_case.media, shown_case.media_fault):
            planned.append({"output_id": output_id, "media_digest": digest})
        yield output_id, shown_case
    file = _media_file(folder, shard_index, is_heard=is_heard)
    if planned:
        write_parquet(file, pa.Table.from_pylist(planned, _PLANNED_SCHEMA))
    else:
        file.unlink(missing_ok=True)


class PlannedMedia:
    """Cases of a planned shard, whose images and sounds are checked against the plan's digests.

    is_heard: for criteria whose judge hears the row's sound.
    """

    def __init__(
        self, shard_index: int, folder: RunFolder, folders: tuple[Path, ...] | None, *, is_heard: bool = False
    ) -> None:
        file = _media_file(folder, shard_index, is_heard=is_heard)
        self._is_heard = is_heard
        self._media = None if folders is None and not is_heard else MediaFiles(folders or ())
        planned = pq.read_table(file).to_pylist() if self._media and file.exists() else []
        self._digests = {row["output_id"]: row["media_digest"] for row in planned}

    def show(self, output_id: str, case: Case) -> Case:
        """Case as shown to a judge; with a fault if its media changed since the plan."""
        planned_digest = self._digests.get(output_id)
        if self._media is None or planned_digest is None:  # the case had no media when it was planned
            return case
        shown_case = self._media.hear(self._media.show(case)) if self._is_heard else self._media.show(case)
        if shown_case.media_fault is None and media_digest(shown_case.media, None) != planned_digest:
            # Placeholders stay in the text, as labels depend on it.
            return replace(shown_case, media=(), media_fault=CHANGED)
        return shown_case


def _media_file(folder: RunFolder, shard_index: int, *, is_heard: bool) -> Path:
    return folder.path / "media" / f"{'heard' if is_heard else 'shard'}-{shard_index:05d}.parquet"


def media_bytes(case: Case) -> int:
    """Bytes counted for the images and sounds of a case."""
    return sum(medium.usual_tokens for medium in case.media) * MEDIA_BYTES_PER_TOKEN
