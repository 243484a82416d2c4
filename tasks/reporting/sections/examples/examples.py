"""Section "Examples": outputs to read, with the reason for showing each, its paired output, verdicts and evidence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
from markupsafe import escape

from gradebook.rubrics.importers.ratings.shapes import OVERALL
from gradebook.rubrics.model.counts import counted
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.schema import narrowed_to_outputs
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.requirements import TOLERANCE
from gradebook.tasks.reporting.drawing.figures import anchor_of
from gradebook.tasks.reporting.drawing.marking import Segment, segments_of
from gradebook.tasks.reporting.sections.examples.answers import (
    JUDGED_BYTES,
    MOST_VOICES,
    Answer,
    Judged,
    ReadOutput,
    answer_of,
    cut,
    judged_rows,
)
from gradebook.tasks.reporting.sections.examples.cards import MOST_CARDS, StepCards, step_cards
from gradebook.tasks.reporting.sections.examples.conversation import Turn, turns_of
from gradebook.tasks.reporting.sections.examples.pictures import Picture, PicturesLeft, folders_of
from gradebook.tasks.reporting.sections.examples.selection import Pick, compared_criteria, is_within_run, pick_outputs
from gradebook.tasks.reporting.source.report_source import Group, ReportSource

MARK_BYTES = 160  # size of the markup of one mark of a step
MOST_BYTES = 2_800_000  # of all examples on the page
MOST_READ = 1_000_000  # characters of a text
MOST_SOURCES = 3_000  # characters of a reference, and of all contexts
MOST_CONTEXTS = 8
_LABELS = {
    "fell": "Got worse",
    "gate": "Gate failed",
    "worst": "Worst",
    "disputed": "Disputed",
    "slice": "Weak spot",
    "apart": "Models differ",
    "unscored": "Unscored",
    "rose": "Got better",
    "best": "Best",
    "sample": "Sample",
}
_WITHIN = {"fell": "Behind the other model", "rose": "Ahead of the other model"}


@dataclass(frozen=True, slots=True)
class Example:
    """Output in full. anchor: target of links; kinds: reasons for showing it, pairs of key and label.

    paired: the answer that it is paired with. change: its score minus that of the paired output. contexts: segments of
    each text. is_same: whether the paired output is the same output in another run.
    """

    anchor: str
    case: str
    row: Row
    group: Group
    kinds: tuple[tuple[str, str], ...]
    change: float | None
    turns: tuple[Turn, ...]
    pictures: tuple[Picture, ...]
    reference: tuple[Segment, ...]
    contexts: tuple[tuple[Segment, ...], ...]
    trajectory: StepCards
    answer: Answer
    paired: Answer | None
    is_same: bool
    verdicts: tuple[Judged, ...]

    @property
    def is_moved(self) -> bool:
        """Whether its score differs from that of the paired output."""
        return self.change is not None and abs(self.change) > TOLERANCE

    @property
    def byte_count(self) -> int:
        """Approximate size on the page, in bytes."""
        pieces = [*self.reference, *self.answer.segments, *(() if self.paired is None else self.paired.segments)]
        pieces += [piece for turn in self.turns for piece in turn.segments]
        pieces += [piece for context in self.contexts for piece in context]
        pieces += [piece for card in self.trajectory.cards for piece in card.segments]
        texts = [*(piece.text for piece in pieces), self.row["feedback"] or "", *self.row["overall"]]
        texts += [text for verdict in self.verdicts for text in verdict.texts]
        marks = [mark for card in self.trajectory.cards for mark in card.marks]
        texts += [text for mark in marks for text in (mark.label, mark.error, mark.who, mark.why)]
        size = sum(len(escape(text).encode()) for text in texts)
        return (
            size
            + 3_000
            + JUDGED_BYTES * len(self.verdicts)
            + 100 * len(pieces)
            + 400 * len(self.trajectory.cards)
            + MARK_BYTES * len(marks)
        )


@dataclass(frozen=True, slots=True)
class ExampleContents:
    """Examples in the order of the page. kinds: key, label and count; reading: sentence with the counts."""

    examples: tuple[Example, ...]
    kinds: tuple[tuple[str, str, int], ...]
    reading: str


def read_examples(source: ReportSource) -> ExampleContents | None:
    """Read the outputs to show, as many as the page has room for; None if the run has none."""
    picks = pick_outputs(source)
    outputs = _read_outputs(source, picks)
    labels = _LABELS | (_WITHIN if is_within_run(source.comparison, source.run_id) else {})
    examples = list(_within_budget(map(partial(_example, source, outputs, labels, PicturesLeft()), picks)))
    if not examples:
        return None
    keys = list(labels)
    examples.sort(key=lambda example: keys.index(example.kinds[0][0]))
    counts = [(key, label, _count_of(examples, key)) for key, label in labels.items()]
    kinds = tuple(kind for kind in counts if kind[2])
    return ExampleContents(tuple(examples), kinds, _reading(source, examples, kinds, len(picks)))


def _within_budget(examples: Iterator[Example]) -> Iterator[Example]:
    left = MOST_BYTES
    for example in examples:
        if example.byte_count <= left:
            left -= example.byte_count
            yield example


def _count_of(examples: Sequence[Example], key: str) -> int:
    return sum(any(key == kind for kind, _ in example.kinds) for example in examples)


def _reading(
    source: ReportSource, examples: Sequence[Example], kinds: Sequence[tuple[str, str, int]], pick_count: int
) -> str:
    """Sentence with the count of each kind; an output of several kinds is shown once."""
    of_kinds = ", ".join(f"{count} {label.lower()}" for _, label, count in kinds)
    words = f"{len(examples)} of {counted(source.summary.run['output_count'] or 0, 'output')}: {of_kinds}."
    if len(examples) < pick_count:
        words += f" {pick_count - len(examples):,} more would make this page too large."
    return words


def _read_outputs(source: ReportSource, picks: Sequence[Pick]) -> Mapping[tuple[str, str], ReadOutput]:
    """Picked outputs and their partners, by run and output."""
    wanted: dict[str, dict[str, None]] = {}
    for pick in picks:
        wanted.setdefault(source.run_id, {})[pick.output_id] = None
        if pick.partner is not None:
            wanted.setdefault(pick.partner.run_id, {})[pick.partner.output_id] = None
    return {
        (run_id, output.row["output_id"]): output
        for run_id, output_ids in wanted.items()
        for output in _read_run_outputs(source, run_id, list(output_ids))
    }


def _claims_of(source: ReportSource, run_id: str, output_ids: list[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Checked claims by output and criterion, each with its verdict and quote; none in a lake without the table."""
    try:
        rows = source.rows(query("reporting/example_claims"), run_id=run_id, output_ids=output_ids)
    except duckdb.CatalogException:
        return {}
    return {(row["output_id"], row["criterion_id"]): tuple(row["claims"]) for row in rows}


def _of_steps(source: ReportSource, select: str, **values: Any) -> dict[str, tuple[Row, ...]]:
    """Rows of a query about steps by output; none in a lake from before they existed."""
    limits = {"most_steps": MOST_CARDS, "most_characters": MOST_READ}
    try:
        rows = source.rows(select, **values, **limits)
    except (duckdb.BinderException, duckdb.CatalogException):
        return {}
    return {output_id: tuple(found) for output_id, found in groupby(rows, key=itemgetter("output_id"))}


def _read_run_outputs(source: ReportSource, run_id: str, output_ids: list[str]) -> Iterator[ReadOutput]:
    media = MediaFiles(folders_of(source.summary.run["dataset"]))
    with narrowed_to_outputs(source.connection, run_id, output_ids):
        rows = source.rows(query("reporting/example_outputs"), run_id=run_id, most_characters=MOST_READ)
        verdicts = source.rows(query("reporting/example_verdicts"), run_id=run_id)
        spoken = source.rows(query("reporting/example_voices"), run_id=run_id, output_ids=output_ids)
        steps = _of_steps(source, query("reporting/example_steps"), output_ids=output_ids)
        given = query("reporting/example_step_marks")
        marks = _of_steps(source, given, output_ids=output_ids, run_id=run_id) if steps else {}
    voices = {(row["output_id"], row["criterion_id"]): tuple(row["voices"]) for row in spoken}
    for place, claims in _claims_of(source, run_id, output_ids).items():
        voices[place] = (*claims, *voices.get(place, ()))
    by_output: dict[str, list[Row]] = {}
    for row in verdicts:
        said = {"voices": voices.get((row["output_id"], row["criterion_id"]), ())}
        by_output.setdefault(row["output_id"], []).append(row | said)
    for row in rows:
        judged = by_output.get(row["output_id"], [])
        is_criterion = any(each["criterion_id"] == OVERALL for each in judged)
        overall = () if is_criterion else voices.get((row["output_id"], OVERALL), ())
        said = row | {"overall": tuple(map(cut, overall[:MOST_VOICES]))}
        name = row["output_id"]
        yield ReadOutput.of(said, tuple(judged), media, steps.get(name, ()), marks.get(name, ()))


def _example(
    source: ReportSource,
    outputs: Mapping[tuple[str, str], ReadOutput],
    labels: Mapping[str, str],
    room: PicturesLeft,
    pick: Pick,
) -> Example:
    output = outputs[source.run_id, pick.output_id]
    partner = pick.partner
    paired = None if partner is None else outputs.get((partner.run_id, partner.output_id))
    is_same = partner is not None and partner.output_id == pick.output_id
    other_run = partner.run_id if partner is not None and partner.run_id != source.run_id else None
    alike = compared_criteria(source.comparison) if other_run and source.comparison else None
    row, context = output.row, tuple(output.row["context"] or ())
    return Example(
        anchor=anchor_of(pick.output_id),
        case=cut(row["case_id"]),
        row=row,
        group=source.group_of(row),
        kinds=tuple((kind, labels[kind]) for kind in pick.kinds),
        change=None if partner is None else partner.change,
        turns=turns_of(output.case.prompt),
        pictures=room.pictures(output.case, "prompt"),
        reference=segments_of(row["reference"], most=MOST_SOURCES) if row["reference"] else (),
        contexts=tuple(
            segments_of(text, most=MOST_SOURCES // min(len(context), MOST_CONTEXTS)) for text in context[:MOST_CONTEXTS]
        ),
        trajectory=step_cards(output.steps, output.evidence, output.marks),
        answer=answer_of(output, room),
        paired=None if paired is None else replace(answer_of(paired, room), run_id=other_run),
        is_same=is_same,
        verdicts=judged_rows(output, paired, alike),
    )
