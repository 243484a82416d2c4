"""Ingest of a dataset into validated, deduplicated shards and a quarantine of bad rows."""

import glob
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np
import orjson
from pydantic import TypeAdapter, ValidationError

from gradebook.rubrics.statistics.similarity import families_of
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.case_criteria import no_criteria
from gradebook.tasks.datasets.discovery import read_rows
from gradebook.tasks.datasets.file_formats import BadRows, Notes, RawRow
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.datasets.sample import Draw, SampleTaken
from gradebook.tasks.datasets.shards import (
    QuarantineWriter,
    ShardWriter,
    cluster_copies,
    count_stored,
    drop_repeats,
    keep_cases,
)
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.rows import read_rows as select_rows
from gradebook.tasks.lake.sql import open_database, query
from gradebook.tasks.system.files import write_parquet, write_text
from gradebook.tasks.workspace.folder import RunFolder

_ADVANCE_ROWS = 1_000
_FIRST_ROWS = 1_000
_MOST_QUESTIONS, _LEAST_QUESTIONS = 300, 10  # of cases whose prompts are compared with each other
_LEAST_CHARACTERS = 40  # of a prompt: shorter ones are alike by chance
_NOTED_SHARE = 0.2  # of cases in families: fewer change little
_NO_RENAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ingested:
    """Result of an ingest."""

    shards: tuple[str, ...]  # file paths, in order
    row_count: int  # rows read, bad ones included
    output_count: int  # distinct outputs stored
    duplicate_count: int
    quarantined_count: int
    extra_columns: tuple[str, ...]  # unknown to gradebook, stored in metadata
    models: tuple[str, ...]  # distinct, sorted
    sample: SampleTaken | None = None  # of the dataset's cases; None: all of them are wanted
    blocks: tuple[int, ...] = ()  # number of shards of each block, after which a run may stop; none: it may not
    notes: tuple[str, ...] = ()  # sentences about outputs that may not be what was meant


_INGESTED = TypeAdapter(Ingested)


def _ignore_progress(_count: int) -> None:
    pass


def ingest_outputs(  # noqa: PLR0913  # six of them have defaults, and are named where they are given
    run_id: str,
    files: Sequence[Path],
    folder: Path,
    *,
    column_map: Mapping[str, str] = _NO_RENAMES,
    trace_format: str | None = None,
    model: str | None = None,
    taken_ids: Collection[str] = (),
    is_unscored_allowed: bool = False,
    checkpoint: OneCheckpoint | None = None,
    max_bad_rate: float = 0.01,
    sample: int | None = None,
    stratify: str | None = None,
    shard_rows: int = 50_000,
    shard_bytes: int = 64 * 2**20,
    advance: Callable[[int], None] = _ignore_progress,
) -> Ingested:
    """Write the outputs of a dataset to FOLDER/shards and its bad rows to FOLDER/quarantine.parquet.

    column_map: gradebook's column -> the file's. trace_format, model: see `read_rows`. taken_ids,
    is_unscored_allowed, checkpoint: see `RowFitter`.
    sample, stratify: the number of cases to store, and the column of their strata, see `Draw`; every row is validated,
    and bad rows of other cases count too. Strata are written to FOLDER/case_weights.parquet. advance: called with the
    count of rows read since the last call.
    An ingest that was finished before is not done again. Raises `OutputsError` where a file can't be read, there is no
    row, or the share of bad rows is over max_bad_rate, `InputError` for strata as in `Draw`; nothing is left then.
    """
    earlier = _read_ingested(folder)
    if earlier is not None:
        return earlier
    shutil.rmtree(folder / "shards", ignore_errors=True)  # left by a killed ingest
    shards = ShardWriter(folder / "shards", shard_rows, shard_bytes)
    try:
        cases = None if sample is None else Draw(sample, stratify, column_map)
        notes = Notes()
        fitter = RowFitter(
            column_map, taken_ids, is_unscored_allowed=is_unscored_allowed, checkpoint=checkpoint, notes=notes
        )
        with QuarantineWriter(folder / "quarantine.parquet", run_id) as quarantine:
            bad_rows = BadRows(files, max_bad_rate, quarantine.add, column_map)
            rows = read_rows(files, column_map, trace_format=trace_format, model=model, notes=notes)
            row_count = _store_rows(rows, fitter, cases, shards, bad_rows, advance)
        ingested = _conclude(folder, row_count, fitter, cases, shards, quarantine)
        doubts = _read_doubts(ingested)
        if doubts["doubled_count"]:
            cluster_copies([Path(shard) for shard in ingested.shards])
        doubt_notes = (*_doubt_notes(doubts, fitter), *_family_notes(ingested))
        ingested = replace(ingested, notes=(*doubt_notes, *map(_note, notes.items())))
    except BaseException:
        shards.abandon()
        shutil.rmtree(folder / "shards", ignore_errors=True)
        raise
    _write_ingested(ingested, folder)
    return ingested


def refuse_bad_rows(
    files: Sequence[Path],
    fitter: RowFitter,
    column_map: Mapping[str, str],
    max_bad_rate: float,
    *,
    needs_criteria: bool = False,
    trace_format: str | None = None,
    model: str | None = None,
) -> None:
    """Read up to 1,000 rows of a dataset, and raise the `OutputsError` that the ingest is sure to raise.

    It is sure to where a header lacks a column, and where there are no further rows. needs_criteria: at least one row
    has to bring criteria of its own. Nothing is written.
    """
    bad_rows = BadRows(files, max_bad_rate, lambda _raw, _reason: None, column_map)
    rows = read_rows(files, column_map, trace_format=trace_format, model=model)
    row_count, has_criteria = 0, False
    for raw in islice(rows, _FIRST_ROWS):
        row_count += 1
        fitted = raw.content if isinstance(raw.content, str) else fitter.fit(raw.content, raw.format)
        if isinstance(fitted, str):
            bad_rows.add(raw, fitted)
        else:
            has_criteria = has_criteria or bool(fitted.criteria)
    if next(rows, None) is None:
        bad_rows.raise_if_too_many(row_count)
        if needs_criteria and not has_criteria:
            raise no_criteria()


def _store_rows(
    rows: Iterable[RawRow],
    fitter: RowFitter,
    cases: Draw | None,
    shards: ShardWriter,
    bad_rows: BadRows,
    advance: Callable[[int], None],
) -> int:
    """Send every row of the sample to the shards and bad rows to the quarantine; returns how many rows there were."""
    row_count = 0
    for raw in rows:
        row_count += 1
        fitted = raw.content if isinstance(raw.content, str) else fitter.fit(raw.content, raw.format)
        if isinstance(fitted, str):
            bad_rows.add(raw, fitted)
            if bad_rows.is_hopeless:
                break
        elif cases is None or cases.take(fitted.case_id, fitted.metadata):
            shards.add(fitted)
        if row_count % _ADVANCE_ROWS == 0:
            advance(_ADVANCE_ROWS)
    advance(row_count % _ADVANCE_ROWS)
    bad_rows.raise_if_too_many(row_count)
    shards.close()
    return row_count


def _conclude(
    folder: Path,
    row_count: int,
    fitter: RowFitter,
    cases: Draw | None,
    shards: ShardWriter,
    quarantine: QuarantineWriter,
) -> Ingested:
    """Drop what later rows displaced from the sample and what a later shard repeats, and sum up."""
    taken = None if cases is None else cases.close()
    if cases is not None and taken is not None and taken.strata:
        write_parquet(RunFolder(folder).case_weights_file, cases.weights(taken))
    paths = shards.paths if cases is None else keep_cases(shards.paths, cases.case_ids)
    paths = drop_repeats(paths, folder / ".spill")
    output_count, models = count_stored(paths)
    wanted_count = row_count - quarantine.count if cases is None else cases.row_count
    return Ingested(
        shards=tuple(str(path) for path in paths),
        row_count=row_count,
        output_count=output_count,
        duplicate_count=wanted_count - output_count,
        quarantined_count=quarantine.count,
        extra_columns=fitter.extra_columns,
        models=models,
        sample=taken,
    )


def _read_doubts(ingested: Ingested) -> Row:
    """Counts of outputs and cases that may not be what was meant: see `datasets/doubts`."""
    with open_database(memory_limit="512MB", preserve_insertion_order=False) as connection:
        shards = [glob.escape(shard) for shard in ingested.shards]
        (doubts,) = select_rows(connection, query("datasets/doubts"), shards=shards)
    return doubts


def _doubt_notes(doubts: Row, fitter: RowFitter) -> Iterator[str]:
    """A sentence each for outputs that are empty, that lack a prompt or that only their texts tell apart, and for cases
    with several prompts or copies.

    A dataset without any prompt column has no prompt that could be missing.
    """
    of_all = f"of {counted(doubts['output_count'], 'output')}"
    if doubts["empty_count"]:
        yield f"{doubts['empty_count']:,} {of_all} came out empty, and are scored as empty answers"
    if doubts["unasked_count"] and fitter.has_prompts:
        yield f"{doubts['unasked_count']:,} {of_all} came out without a prompt: a judge does not see what was asked"
    if doubts["mixed_count"]:
        count = counted(doubts["mixed_count"], "case id")
        yield f"{count} with several prompts, such as {doubts['mixed_case']}: their outputs are compared as one case"
    if doubts["shared_count"]:
        count = counted(doubts["shared_count"], "case id")
        such_as = f"such as {doubts['shared_case']}: number them"
        yield f"{count} with several outputs of one model and sample_index, {such_as}"
    if doubts["doubled_count"]:
        yield (
            f"{counted(doubts['doubled_count'], 'case')} with the prompt and output of another id, such as "
            f"{doubts['doubled_case']} and {doubts['other_case']}: intervals and tests count copies as one `cluster`, "
            "unless their rows name another one"
        )


def _family_notes(ingested: Ingested) -> Iterator[str]:
    """A sentence on cases whose prompts and contexts are nearly alike, if they have no cluster.

    None where most cases are alike, as by one template, which says nothing of their content.
    """
    with open_database(memory_limit="512MB", preserve_insertion_order=False) as connection:
        shards = [glob.escape(shard) for shard in ingested.shards[:1]]
        questions = select_rows(
            connection, query("datasets/first_questions"), shards=shards, most=_MOST_QUESTIONS, least=_LEAST_CHARACTERS
        )
    if len(questions) < _LEAST_QUESTIONS:
        return
    sizes = np.bincount(families_of([row["question"] for row in questions]))
    alike_count = int(sizes[sizes > 1].sum())
    if alike_count >= _NOTED_SHARE * len(questions) and sizes.max() <= len(questions) / 2:
        yield (
            f"{alike_count:,} of the first {counted(len(questions), 'case')} have nearly the prompt of another case: "
            "if they are variants of one question, give each family a `cluster`, or chance is found too often"
        )


def _note(counted_sentence: tuple[str, int]) -> str:
    sentence, count = counted_sentence
    return f"{counted(count, 'row')} {sentence}"


def _write_ingested(ingested: Ingested, folder: Path) -> None:
    """Write the file that marks the ingest as finished."""
    write_text(folder / "ingest.json", orjson.dumps(ingested).decode())


def _read_ingested(folder: Path) -> Ingested | None:
    """Result of an earlier ingest, with its shards in the folder's present place; None if it did not finish."""
    try:
        ingested = _INGESTED.validate_json((folder / "ingest.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return replace(ingested, shards=tuple(str(folder / "shards" / Path(shard).name) for shard in ingested.shards))
