"""Section "Examples": outputs side by side, with their evidence marked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
from markupsafe import escape

from gradebook.rubrics.model.rubric import OVERALL
from gradebook.rubrics.statistics.release import TOLERANCE
from gradebook.rubrics.statistics.rules import CRITERION
from gradebook.rubrics.text.wording import counted, price_words
from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.rows import Row, make_table
from gradebook.tasks.lake.schema import narrowed_to_outputs
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.charts import anchor_of
from gradebook.tasks.reporting.rendering import Segment, segments_of, visible
from gradebook.tasks.reporting.report_source import Group, ReportSource
from gradebook.tasks.reporting.sections.answers import (
    JUDGED_BYTES,
    MOST_VOICES,
    Answer,
    Judged,
    Picture,
    PictureBudget,
    ReadOutput,
    Turn,
    answer_of,
    cut,
    folders_of,
    judged_rows,
    turns_of,
)
from gradebook.tasks.rubric_store.questions import add_questions_of_run

MOST_CARDS = 20  # from each end of a trajectory
MOST_CARD_TEXT = 800  # characters shown of an input, an output or an error
MOST_NAME = 80
MOST_MARKS = 12  # of a step
MOST_WHY = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class CardMark:
    """Mark that a judge or a rater gave a step. tone: good, partial or bad; error: type, subtype and severity."""

    tone: str
    label: str
    error: str
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Card:
    """Card of a step. title: its name; about: agent, time, tokens and cost; left_out: steps that this card replaces.

    marks: by judges and people, at most `MOST_MARKS`; mark_count: of all; is_disputed: whether labels differ.
    """

    number: int
    kind: str
    title: str = ""
    about: str = ""
    input: tuple[Segment, ...] = ()
    output: tuple[Segment, ...] = ()
    error: tuple[Segment, ...] = ()
    left_out: int = 0
    marks: tuple[CardMark, ...] = ()
    mark_count: int = 0
    is_disputed: bool = False

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All texts of the card."""
        return (*self.input, *self.output, *self.error)


@dataclass(frozen=True, slots=True)
class StepCards:
    """Cards of an output. step_count, error_count: of all steps, also those that are not shown."""

    cards: tuple[Card, ...] = ()
    step_count: int = 0
    error_count: int = 0

    @property
    def disputed_count(self) -> int:
        """Cards with marks that differ."""
        return sum(card.is_disputed for card in self.cards)


def step_cards(rows: Sequence[Row], evidence: Iterable[tuple[str, str]], marks: Sequence[Row] = ()) -> StepCards:
    """Cards of the rows of example_steps of one output. evidence: criterion's name and quote; marks: its rows of
    example_step_marks.
    """
    if not rows:
        return StepCards()
    marked = list(evidence)
    has_criteria = len({mark["criterion_id"] for mark in marks}) > 1
    by_step: dict[int, list[Row]] = {}
    for mark in marks:
        by_step.setdefault(mark["step_index"], []).append(mark)
    cards: list[Card] = []
    for row in rows:
        if row["step_index"] > (cards[-1].number + 1 if cards else 0):
            missing = row["step_index"] - len(cards)
            cards.append(Card(row["step_index"] - 1, "", left_out=missing))
        of_step = by_step.get(row["step_index"], ())
        card_marks = tuple(_mark(mark, has_criteria=has_criteria) for mark in of_step[:MOST_MARKS])
        card = replace(_card(row, marked), marks=card_marks, mark_count=len(of_step), is_disputed=_is_disputed(of_step))
        cards.append(card)
    return StepCards(tuple(cards), rows[0]["step_count"], rows[0]["error_count"])


def _card(row: Row, evidence: Sequence[tuple[str, str]]) -> Card:
    def shown(text: str | None) -> tuple[Segment, ...]:
        return segments_of(text, evidence, most=MOST_CARD_TEXT) if text else ()

    return Card(
        row["step_index"],
        row["kind"],
        visible((row["name"] or "")[:MOST_NAME]),
        _about(row),
        shown(row["input"]),
        shown(row["output"]),
        shown(row["error"]),
    )


def _is_disputed(marks: Sequence[Row]) -> bool:
    """Whether judges or people gave a step different labels on a criterion."""
    labels = {(mark["criterion_id"], mark["label"]) for mark in marks if mark["score"] is not None}
    return len(labels) > len({criterion_id for criterion_id, _ in labels})


def _mark(row: Row, *, has_criteria: bool) -> CardMark:
    """A row of example_step_marks: kind 0 is a lead's decision, 1 the judge's verdict, 2 a vote, 3 a person's mark."""
    score, kind = row["score"], row["kind"]
    tone = "none" if score is None else "good" if score == 1 else "bad" if score == 0 else "partial"
    name = visible((row["who"] or "")[:MOST_NAME])
    who = ("settled by " + name, "judge", name, name)[kind]
    if has_criteria:
        who = f"{visible(row['criterion_id'])}, {who}"
    error = " / ".join(word for word in (row["error_type"], row["error_subtype"]) if word)
    error_words = ", ".join(visible(word[:MOST_NAME]) for word in (error, row["severity"]) if word)
    why = row["why"] or ""
    return CardMark(tone, visible(row["label"][:MOST_NAME]), error_words, who, visible(_clipped(why)))


def _clipped(text: str) -> str:
    return text if len(text) <= MOST_WHY else f"{text[: MOST_WHY - 1]}…"


def _about(row: dict[str, Any]) -> str:
    facts = [
        visible((row["agent"] or "")[:MOST_NAME]),
        "" if row["latency_ms"] is None else f"{row['latency_ms'] / 1000:,.1f} s",
        "" if row["tokens"] is None else counted(row["tokens"], "token"),
        "" if row["cost_usd"] is None else price_words(row["cost_usd"]),
    ]
    return " · ".join(part for part in facts if part)


MOST_OF_A_KIND = 10
MOST_EXAMPLES = 80
# In the order of the page. `sample` is used only if no output has another kind.
KINDS = ("fell", "gate", "worst", "disputed", "apart", "slice", "unscored", "rose", "best", "sample")
_SAMPLES = """
select 'sample' as kind, output_id, row_number() over (order by case_id, model, checkpoint, output_id) as place
from output_scores where run_id = ? qualify place <= ?
"""
_TABLES = ("example_pairs", "example_disputes")


@dataclass(frozen=True, slots=True)
class Partner:
    """Output paired with a picked one. change: score of the picked output minus this one's; None if not comparable."""

    output_id: str
    run_id: str
    change: float | None


@dataclass(frozen=True, slots=True)
class Pick:
    """Output to show. kinds: reasons, in the order of `KINDS`."""

    output_id: str
    kinds: tuple[str, ...]
    partner: Partner | None


def pick_outputs(source: ReportSource) -> tuple[Pick, ...]:
    """Pick the outputs to show: the first of each kind, then the second of each kind, ..."""
    with _pair_tables(source):
        rows = _read_picks(source)
        first_places = _first_places(rows)
        chosen = sorted(first_places, key=lambda output_id: (*first_places[output_id], output_id))[:MOST_EXAMPLES]
        partners = _read_partners(source, chosen)
    kinds: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: KINDS.index(row["kind"])):
        kinds.setdefault(row["output_id"], []).append(row["kind"])
    return tuple(Pick(output_id, tuple(kinds[output_id]), partners.get(output_id)) for output_id in chosen)


def is_within_run(comparison: RunComparison | None, run_id: str) -> bool:
    """Whether the comparison is between two models of the run."""
    return comparison is not None and comparison.baseline_run_id == run_id


@contextmanager
def _pair_tables(source: ReportSource) -> Iterator[None]:
    """Provide temporary tables of paired outputs and of disputed outputs during the block."""
    comparison = source.comparison
    baseline = source.run_id if comparison is None else comparison.baseline_run_id
    pairs = {"run_id": source.run_id, "baseline_run_id": baseline, "sides": _sides(comparison)}
    try:
        make_table(source.connection, "reporting/example_pairs", **pairs)
        add_questions_of_run(source.connection, source.run_id, "ratings")
        make_table(source.connection, "reporting/example_disputes", run_id=source.run_id)
        yield
    finally:
        for table in _TABLES:
            source.connection.execute(f"drop table if exists temp.{table}")


def _sides(comparison: RunComparison | None) -> list[Row]:
    """Both sides of each pair of models: A from the baseline, B from the run."""
    figures = () if comparison is None else comparison.figures
    names = ("model", "checkpoint", "baseline_model", "baseline_checkpoint")
    pairs = dict.fromkeys(tuple(row[name] for name in names) for row in figures)
    sides: list[Row] = []
    for pair, (model, checkpoint, baseline_model, baseline_checkpoint) in enumerate(pairs):
        sides.append({"pair": pair, "side": "b", "model": model, "checkpoint": checkpoint})
        sides.append({"pair": pair, "side": "a", "model": baseline_model, "checkpoint": baseline_checkpoint})
    return sides


def _read_picks(source: ReportSource) -> list[Row]:
    """Rows per output and kind, without changes if the rubrics differ: their scores are not comparable."""
    rows = list(source.rows(query("reporting/example_picks"), run_id=source.run_id, most_count=MOST_OF_A_KIND))
    if source.comparison is not None and source.comparison.banner:
        rows = [row for row in rows if row["kind"] not in {"fell", "rose"}]
    kinds = {row["kind"] for row in rows}
    if not kinds & {"fell", "rose", "disputed"}:
        rows += source.rows(query("reporting/example_gaps"), run_id=source.run_id, most_count=MOST_OF_A_KIND)
    return rows or list(source.rows(_SAMPLES, source.run_id, MOST_OF_A_KIND))


def _first_places(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Best place of each output within a kind, with the position of that kind."""
    places: dict[str, tuple[int, int]] = {}
    for row in rows:
        place = (row["place"], KINDS.index(row["kind"]))
        places[row["output_id"]] = min(place, places.get(row["output_id"], place))
    return places


def _read_partners(source: ReportSource, chosen: Sequence[str]) -> Mapping[str, Partner]:
    """Partner by output: from the other side of the comparison, else another model's answer to the same case."""
    comparison = source.comparison
    partner_rows = source.rows(query("reporting/example_partners"), run_id=source.run_id, output_ids=list(chosen))
    partners = {row["output_id"]: Partner(row["partner_id"], source.run_id, None) for row in partner_rows}
    if comparison is None:
        return partners
    pairs = source.rows("from example_pairs where list_contains($1, output_id) order by is_b", list(chosen))
    for row in pairs:
        change = None if comparison.banner else row["change"]
        partners[row["output_id"]] = Partner(row["partner_id"], comparison.baseline_run_id, change)
    return partners


def compared_criteria(comparison: RunComparison) -> frozenset[str] | None:
    """Criteria with the same text on both sides; None if all have."""
    if comparison.banner is None:
        return None
    rows = (row for pair in comparison.models for row in pair.rows)
    return frozenset(row.scope_id for row in rows if row.scope == CRITERION and row.is_compared)


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
    """Examples in the order of the page. kinds: key, label and count; sentence: states the counts."""

    examples: tuple[Example, ...]
    kinds: tuple[tuple[str, str, int], ...]
    sentence: str


def read_examples(source: ReportSource) -> ExampleContents | None:
    """Read the outputs to show, as many as the page has room for; None if the run has none."""
    picks = pick_outputs(source)
    outputs = _read_outputs(source, picks)
    labels = _LABELS | (_WITHIN if is_within_run(source.comparison, source.run_id) else {})
    examples = list(_within_budget(map(partial(_example, source, outputs, labels, PictureBudget()), picks)))
    if not examples:
        return None
    keys = list(labels)
    examples.sort(key=lambda example: keys.index(example.kinds[0][0]))
    counts = [(key, label, _count_of(examples, key)) for key, label in labels.items()]
    kinds = tuple(kind for kind in counts if kind[2])
    return ExampleContents(tuple(examples), kinds, _counts_sentence(source, examples, kinds, len(picks)))


def read_outputs(source: ReportSource, output_ids: Sequence[str]) -> tuple[Example, ...]:
    """Outputs of the source's run in full, in this order, without pairs."""
    picks = tuple(Pick(output_id, (), None) for output_id in output_ids)
    outputs = _read_outputs(source, picks)
    return tuple(map(partial(_example, source, outputs, {}, PictureBudget()), picks))


def _within_budget(examples: Iterator[Example]) -> Iterator[Example]:
    left = MOST_BYTES
    for example in examples:
        if example.byte_count <= left:
            left -= example.byte_count
            yield example


def _count_of(examples: Sequence[Example], key: str) -> int:
    return sum(any(key == kind for kind, _ in example.kinds) for example in examples)


def _counts_sentence(
    source: ReportSource, examples: Sequence[Example], kinds: Sequence[tuple[str, str, int]], pick_count: int
) -> str:
    """Sentence with the count of each kind; an output of several kinds is shown once."""
    of_kinds = ", ".join(f"{count} {label.lower()}" for _, label, count in kinds)
    sentence = f"{len(examples)} of {counted(source.summary.run['output_count'] or 0, 'output')}: {of_kinds}."
    if len(examples) < pick_count:
        sentence += f" {pick_count - len(examples):,} more would make this page too large."
    return sentence


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
    return {output_id: tuple(output_rows) for output_id, output_rows in groupby(rows, key=itemgetter("output_id"))}


def _read_run_outputs(source: ReportSource, run_id: str, output_ids: list[str]) -> Iterator[ReadOutput]:
    media = MediaFiles(folders_of(source.summary.run["dataset"]))
    add_questions_of_run(source.connection, run_id, "ratings", "step_ratings", "step_adjudications")
    with narrowed_to_outputs(source.connection, run_id, output_ids):
        rows = source.rows(query("reporting/example_outputs"), run_id=run_id, most_characters=MOST_READ)
        verdicts = source.rows(query("reporting/example_verdicts"), run_id=run_id)
        voice_rows = source.rows(query("reporting/example_voices"), run_id=run_id, output_ids=output_ids)
        steps = _of_steps(source, query("reporting/example_steps"), output_ids=output_ids)
        select = query("reporting/example_step_marks")
        marks = _of_steps(source, select, output_ids=output_ids, run_id=run_id) if steps else {}
    voices = {(row["output_id"], row["criterion_id"]): tuple(row["voices"]) for row in voice_rows}
    for key, claims in _claims_of(source, run_id, output_ids).items():
        voices[key] = (*claims, *voices.get(key, ()))
    by_output: dict[str, list[Row]] = {}
    for row in verdicts:
        extended = {"voices": voices.get((row["output_id"], row["criterion_id"]), ())}
        by_output.setdefault(row["output_id"], []).append(row | extended)
    for row in rows:
        judged = by_output.get(row["output_id"], [])
        is_criterion = any(verdict["criterion_id"] == OVERALL for verdict in judged)
        overall = () if is_criterion else voices.get((row["output_id"], OVERALL), ())
        extended = row | {"overall": tuple(map(cut, overall[:MOST_VOICES]))}
        name = row["output_id"]
        yield ReadOutput.of(extended, tuple(judged), media, steps.get(name, ()), marks.get(name, ()))


def _example(
    source: ReportSource,
    outputs: Mapping[tuple[str, str], ReadOutput],
    labels: Mapping[str, str],
    room: PictureBudget,
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
