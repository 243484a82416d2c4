"""Outputs of a file with people's signals, and the selection of outputs for a draft and its trial."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from gradebook.rubrics.learning.signals import SIGNAL_COLUMNS, Signal, marks_of, note_of, signal_of
from gradebook.rubrics.model.errors import Fault, InputError, RatingsError
from gradebook.rubrics.model.outputs import Output, output_id
from gradebook.rubrics.prompts.prompt import Case, View
from gradebook.rubrics.prompts.trajectory import trajectory_of
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.discovery import dataset_files, read_rows
from gradebook.tasks.datasets.file_formats import BadRows
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.ratings.evaluation_file import RatingRow, read_rating_rows
from gradebook.tasks.rewards.outputs import ReadOutput

MOST_STORED = 4_000  # outputs in memory: those with the smallest ids, which are hashes of their content
LEAST_OUTPUTS = 8
MOST_BAD_RATE = 0.01
MOST_EACH = 20  # bad outputs that a draft is made from, and as many good ones
MOST_TRIED_EACH = 25
LEAST_TRIED_EACH = 5  # fewest unused bad and good outputs; with fewer, the trial uses all outputs
MOST_ROWS = 1_000_000  # rows that are read


@dataclass(frozen=True, slots=True)
class Example:
    """Output with people's signals. is_bad: None without a signal."""

    read: ReadOutput
    is_bad: bool | None = None
    note: str | None = None

    @property
    def output(self) -> Output:
        return self.read.output

    @property
    def id(self) -> str:
        return self.read.output_id

    def case(self, view: View = View()) -> Case:  # noqa: B008 - frozen
        """Case as a judge is shown it, with placeholders for images."""
        output = self.output
        steps = trajectory_of(output.steps, output.output)
        case = Case(output.prompt, output.output, output.reference, tuple(output.context or ()), trajectory=steps)
        return replace(MediaFiles(()).show(case), media=(), media_fault=None).seen(view)


@dataclass(frozen=True, slots=True)
class ReadExamples:
    """Outputs of a file. signal: description of the source of the marks; None without marks."""

    examples: tuple[Example, ...]
    row_count: int
    models: tuple[str, ...]
    signal: str | None

    @property
    def columns(self) -> frozenset[str]:
        """Columns beside the output that a check may read."""
        outputs = [example.output for example in self.examples]
        names = {"reference": any(output.reference for output in outputs)}
        names["context"] = any(output.context for output in outputs)
        return frozenset(name for name, is_there in names.items() if is_there)


@dataclass(frozen=True, slots=True)
class Said:
    """Signals of people outside the file of outputs. bad, good: cases, by id. ratings: a file."""

    bad: frozenset[str] = frozenset()
    good: frozenset[str] = frozenset()
    ratings: Path | None = None


def read_examples(outputs: str, column_map: Mapping[str, str], said: Said) -> ReadExamples:
    """Outputs with people's signals, from the first source given: named cases, ratings, a column of the file.

    Raises `InputError` for fewer than `LEAST_OUTPUTS`, or a case or rating that is about none of the outputs.
    """
    files = dataset_files(outputs)
    rated = _read_rated(said.ratings) if said.ratings is not None else {}
    wanted_cases = said.bad | said.good | {case_id for case_id, *_ in rated}
    outputs_read, row_count, models = _read_outputs(files, column_map, wanted_cases)
    if len(outputs_read) < LEAST_OUTPUTS:
        counted_outputs = counted(len(outputs_read), "output")
        raise InputError(
            outputs, counted_outputs, f"at least {LEAST_OUTPUTS}: criteria of fewer would be about these alone"
        )
    if said.bad or said.good:
        marked: Iterable[Example] = _by_cases(outputs_read, said, outputs)
        signal: str | None = "the cases of --bad and --good"
    elif said.ratings is not None:
        marked, signal = _by_ratings(outputs_read, rated, said.ratings), f"the ratings of {said.ratings.name}"
    else:
        marked, signal = _by_column(outputs_read)
    return ReadExamples(tuple(marked), row_count, tuple(models), signal)


def _read_outputs(
    files: Sequence[Path], column_map: Mapping[str, str], wanted: frozenset[str]
) -> tuple[list[ReadOutput], int, dict[str, None]]:
    """Outputs of a dataset, at most `MOST_STORED`, by id; the number of rows, and the models. wanted: cases with
    priority.
    """
    fitter = RowFitter(column_map, is_unscored_allowed=True)
    bad_rows = BadRows(files, MOST_BAD_RATE, lambda _raw, _reason: None, column_map)
    outputs_by_id: dict[str, ReadOutput] = {}
    models: dict[str, None] = {}
    row_count = 0

    def first() -> list[str]:
        return sorted(outputs_by_id, key=lambda key: (outputs_by_id[key].output.case_id not in wanted, key))[
            :MOST_STORED
        ]

    for raw in read_rows(files, column_map):
        row_count += 1
        fitted = raw.content if isinstance(raw.content, str) else fitter.fit(raw.content, raw.format)
        if isinstance(fitted, str):
            bad_rows.add(raw, fitted)
            continue
        models.setdefault(fitted.model)
        id_of_output = output_id(fitted)
        outputs_by_id[id_of_output] = ReadOutput(id_of_output, fitted)
        if len(outputs_by_id) >= 2 * MOST_STORED:
            outputs_by_id = {key: outputs_by_id[key] for key in first()}
        if row_count == MOST_ROWS:
            break
    bad_rows.raise_if_too_many(row_count)
    return [outputs_by_id[key] for key in sorted(first())], row_count, models


def _by_cases(stored: Iterable[ReadOutput], said: Said, source: str) -> Iterator[Example]:
    outputs = list(stored)
    known = {output.output.case_id for output in outputs}
    for option, cases in (("--bad", said.bad), ("--good", said.good)):
        if unknown := sorted(cases - known):
            raise InputError(option, f"the case {unknown[0]!r}", f"cases of {source}")
    if in_both := sorted(said.bad & said.good):
        raise InputError("--good", f"the case {in_both[0]!r}, which --bad names too", "each case once")
    for output in outputs:
        case_id = output.output.case_id
        is_good = case_id in said.good or not said.good  # if no good case is named, all others are good
        yield Example(output, True if case_id in said.bad else False if is_good else None, _note(output))


_Rated = dict[tuple[str, str, str | None, int], list[RatingRow]]  # (case, model, checkpoint, sample) -> ratings


def _read_rated(path: Path) -> _Rated:
    rated: _Rated = {}
    for raw in read_rating_rows(path):
        try:
            row = RatingRow.model_validate(raw.content)
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(map(str, fault["loc"])) or "row"
            raise RatingsError((Fault(raw.source, raw.line, f"{place}: {fault['msg']}"),)) from None
        rated.setdefault((row.case_id, row.model, row.checkpoint, row.sample_index or 0), []).append(row)
    return rated


def _by_ratings(stored: Iterable[ReadOutput], rated: _Rated, path: Path) -> Iterator[Example]:
    """Outputs with the mean of their ratings, over all criteria and raters."""
    is_any = is_scored = False
    for output in stored:
        one = output.output
        rows = rated.get((one.case_id, one.model, one.checkpoint, one.sample_index), [])
        is_any = is_any or bool(rows)
        signals = [row.score if row.score is not None else signal_of(row.level_id) for row in rows]
        scores = [1.0 - signal if isinstance(signal, bool) else signal for signal in signals if signal is not None]
        is_scored = is_scored or bool(scores)
        mean = sum(scores) / len(scores) if scores else None
        notes = [row.notes for row in rows if row.notes]
        yield Example(output, marks_of([mean], 0.0, 1.0)[0], notes[0] if notes else _note(output))
    if not is_any:
        raise InputError("--ratings", f"no rating in {path} of these outputs", "their case_id and model")
    if not is_scored:
        levels = sorted({row.level_id or "" for rows in rated.values() for row in rows})
        raise InputError("--ratings", f"the levels {', '.join(levels[:5])}", "scores, or levels such as fail and pass")


def _by_column(stored: Sequence[ReadOutput]) -> tuple[list[Example], str | None]:
    """Outputs marked by the first column with both bad and good signals, and the source's description."""
    metadata = [_metadata(output) for output in stored]
    for column in SIGNAL_COLUMNS:
        signals: list[Signal] = [signal_of(values.get(column)) for values in metadata]
        marks = marks_of(signals)
        if {True, False} <= set(marks):
            rows = zip(stored, marks, metadata, strict=True)
            return [Example(output, mark, note_of(values)) for output, mark, values in rows], f"the column {column}"
    return [Example(output, None, note_of(values)) for output, values in zip(stored, metadata, strict=True)], None


def _metadata(output: ReadOutput) -> dict[str, Any]:
    values = orjson.loads(output.output.metadata) if output.output.metadata else {}
    return values if isinstance(values, dict) else {}


def _note(output: ReadOutput) -> str | None:
    return note_of(_metadata(output))


def one_per_case(examples: Iterable[Example]) -> list[Example]:
    """First output of each case, as outputs of one case are not independent."""
    firsts: dict[str, Example] = {}
    for example in examples:
        firsts.setdefault(example.output.case_id, example)
    return list(firsts.values())


@dataclass(frozen=True, slots=True)
class Chosen:
    """Outputs for the draft, and outputs for its trial.

    is_held_out: whether no case of the trial was used for the draft.
    """

    bad: tuple[Example, ...]
    good: tuple[Example, ...]
    tried: tuple[Example, ...]
    is_held_out: bool


def choose(examples: Sequence[Example]) -> Chosen:
    """Up to 20 bad and 20 good outputs for the draft, and up to 25 of other cases for its trial, one of each case.

    With too few other cases, the trial uses the same outputs.
    """
    bad, good = (one_per_case(each for each in examples if each.is_bad is mark) for mark in (True, False))
    drafted = [side[: min(MOST_EACH, (len(side) + 1) // 2)] for side in (bad, good)]
    used = {example.output.case_id for side in drafted for example in side}
    others = [
        [example for example in side if example.output.case_id not in used][:MOST_TRIED_EACH] for side in (bad, good)
    ]
    is_held_out = min(map(len, others)) >= LEAST_TRIED_EACH
    if not is_held_out:
        drafted = [side[:MOST_EACH] for side in (bad, good)]
        others = [side[:MOST_TRIED_EACH] for side in (bad, good)]
    return Chosen(tuple(drafted[0]), tuple(drafted[1]), (*others[0], *others[1]), is_held_out)
