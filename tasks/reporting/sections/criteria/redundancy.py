"""Redundancy of the criteria: which follow one another, what each adds, and which never vary."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from gradebook.rubrics.files.digest import rubric_from_body
from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.outcomes import Correlation, pearson, unique_shares
from gradebook.tasks.lake.sql import query
from gradebook.tasks.reporting.drawing.figures import Table, table_of
from gradebook.tasks.reporting.source.report_source import ReportSource
from gradebook.tasks.system.number_format import difference_interval_words, rate_words, signed_words

MOST_OUTPUTS = 5_000
MOST_CRITERIA = 30
MOST_PAIRS = 10
LEAST_OUTPUTS = 10
ALIKE = 0.8  # a correlation from which two criteria say much the same


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Sentences, and tables of the most alike pairs and of each criterion's own part."""

    sentences: tuple[str, ...]
    tables: tuple[Table, ...]


def read_redundancy(source: ReportSource) -> Redundancy | None:
    """Correlations of the criteria over outputs of the run, within each model; None with one criterion or few outputs.

    The correlation is Pearson's of the scores less the model's mean, so that differences between models don't count.
    """
    body = source.rubric_body
    names = [] if body is None else [each.id for each in rubric_from_body(body).criteria][:MOST_CRITERIA]
    if len(names) < 2:
        return None
    limits = {"run_id": source.run_id, "criteria": names, "most_count": MOST_OUTPUTS}
    rows = source.rows(query("reporting/criterion_cells"), **limits)
    outputs = {name: place for place, name in enumerate(dict.fromkeys(row["output_id"] for row in rows))}
    if len(outputs) < LEAST_OUTPUTS:
        return None
    scores, columns = np.full((len(outputs), len(names)), np.nan), {name: place for place, name in enumerate(names)}
    cases = np.zeros(len(outputs), dtype=np.int64)
    for row in rows:
        place = outputs[row["output_id"]]
        scores[place, columns[row["criterion_id"]]], cases[place] = row["deviation"], row["case_number"]
    constant = [name for name, column in columns.items() if _is_constant(scores[:, column])]
    pairs = _pairs(scores, cases, [name for name in names if name not in constant], columns)
    whole = scores[~np.isnan(scores).any(axis=1)]
    own = unique_shares(whole).tolist()
    sentences = _sentences(names, constant, pairs, own, len(whole))
    return Redundancy(tuple(sentences), tuple(_tables(names, pairs, own)))


def _is_constant(scores: Floats) -> bool:
    known = scores[~np.isnan(scores)]
    return known.size > 0 and float(np.ptp(known)) <= 1e-9


def _pairs(
    scores: Floats, cases: NDArray[np.int64], names: Sequence[str], columns: dict[str, int]
) -> list[tuple[str, str, Correlation]]:
    """Most alike pairs first, with the interval of the first ones."""
    found = []
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            own, others = scores[:, columns[name]], scores[:, columns[other]]
            known = ~np.isnan(own + others)
            if known.sum() >= LEAST_OUTPUTS and not (_is_constant(own[known]) or _is_constant(others[known])):
                found.append((abs(float(np.corrcoef(own[known], others[known])[0, 1])), name, other))
    found.sort(key=lambda each: (-each[0], each[1], each[2]))
    measured = []
    for _, name, other in found[:MOST_PAIRS]:
        own, others = scores[:, columns[name]], scores[:, columns[other]]
        known = ~np.isnan(own + others)
        measured.append((name, other, pearson(own[known], others[known], cases[known])))
    return measured


def _sentences(
    names: Sequence[str],
    constant: Sequence[str],
    pairs: Sequence[tuple[str, str, Correlation]],
    own: Sequence[float],
    whole_count: int,
) -> list[str]:
    said = []
    if constant:
        verb = "never varies" if len(constant) == 1 else "never vary"
        said.append(f"{', '.join(constant)} {verb} within a model: the scores tell no two of its outputs apart by it.")
    alike = [(name, other, found) for name, other, found in pairs if found.value >= ALIKE]
    if alike:
        named = "; ".join(f"{name} and {other} ({signed_words(found.value)})" for name, other, found in alike[:3])
        said.append(f"Much the same is asked by {named}: one of them may do, or one judge's view colours both.")
    elif pairs:
        name, other, found = pairs[0]
        said.append(
            f"No two criteria say the same: the most alike are {name} and {other} ({signed_words(found.value)})."
        )
    known = [(share, name) for share, name in zip(own, names, strict=True) if not isnan(share)]
    if known and min(known)[0] < 1 - ALIKE**2:
        share, name = min(known)
        said.append(f"{name} adds least: {rate_words(share)} of its variance is not in the other criteria.")
    if said:
        said.append(f"Over {counted(whole_count, 'output')} with all scores, less each model's mean.")
    return said


def _tables(names: Sequence[str], pairs: Sequence[tuple[str, str, Correlation]], own: Sequence[float]) -> list[Table]:
    cells = [
        (name, other, signed_words(found.value), difference_interval_words(*_ends(found)))
        for name, other, found in pairs
    ]
    parts = [(name, rate_words(None if isnan(share) else share)) for name, share in zip(names, own, strict=True)]
    tables = []
    if cells:
        tables.append(
            table_of("Most alike criteria", ("Criterion", "Criterion"), ("Correlation", "95% interval"), cells)
        )
    tables.append(table_of("Variance of its own", ("Criterion",), ("Variance not in the others",), parts))
    return tables


def _ends(found: Correlation) -> tuple[float | None, float | None]:
    return (found.interval.low, found.interval.high) if found.interval.is_known else (None, None)
