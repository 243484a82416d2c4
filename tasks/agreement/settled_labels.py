"""Levels of outputs settled from what raters and judges said of them, by each one's errors (Dawid and Skene)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.statistics.agreement import scale_of
from gradebook.rubrics.statistics.dawid_skene import settle_labels
from gradebook.tasks.agreement.mart import Voices, read_voices
from gradebook.tasks.agreement.statements import JUDGE, MEMBER, RATER, add_statements_of_run

_OUTPUTS = "select distinct output_id from statements where criterion_id = ? order by output_id"
NO_LEVELS = "the scores are not levels"


@dataclass(frozen=True, slots=True)
class VoiceErrors:
    """Errors of a rater or judge. accuracy: probability of the true level; confusion: rows are true levels."""

    side: str
    who: str
    n: int
    accuracy: float
    confusion: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class SettledCriterion:
    """Settled levels of a criterion. levels: scores of its levels, 0..1; shares: of the outputs at each.

    labels: output_id, level (its score) and probability of each output. reason: why nothing is settled.
    """

    criterion_id: str
    reason: str | None
    levels: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    voices: tuple[VoiceErrors, ...] = ()
    labels: tuple[tuple[str, float, float], ...] = ()

    def as_json(self) -> dict[str, Any]:
        names = ("output_id", "level", "probability")
        return {**asdict(self), "labels": [dict(zip(names, each, strict=True)) for each in self.labels]}


def settle_run(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None
) -> tuple[SettledCriterion, ...]:
    """Settle each criterion of a published run that has two voices on two outputs. connection: to the lake."""
    if not add_statements_of_run(connection, run_id):
        return ()
    return tuple(_settled(connection, list(read_voices(connection, criterion_id))))


def _settled(connection: duckdb.DuckDBPyConnection, found: list[Voices]) -> Iterator[SettledCriterion]:
    for voices in found:
        output_ids = [name for (name,) in connection.execute(_OUTPUTS, [voices.criterion_id]).fetchall()]
        yield settle_voices(voices, output_ids)


def settle_voices(voices: Voices, output_ids: list[str]) -> SettledCriterion:
    """Settle one criterion. The judges of a panel count each, else the run's judge; decisions of a lead do not."""
    places = [*voices.chosen(RATER), *(voices.chosen(MEMBER) or voices.chosen(JUDGE))]
    said = voices.levels[places]
    scale = scale_of(said, voices.scale)
    if scale is None:
        return SettledCriterion(voices.criterion_id, NO_LEVELS)
    is_heard = np.asarray((~np.isnan(said)).any(axis=0))
    who, outputs = np.nonzero(~np.isnan(said[:, is_heard]))
    labels = np.searchsorted(scale, said[:, is_heard][who, outputs])
    found = settle_labels(who, outputs, labels, len(scale))
    if found.reason is not None:
        return SettledCriterion(voices.criterion_id, found.reason)
    counts = np.bincount(who, minlength=len(places)).tolist()
    errors = [
        VoiceErrors(*voices.names[place], n, accuracy, tuple(map(tuple, confusion)))
        for place, n, accuracy, confusion in zip(
            places, counts, found.accuracies.tolist(), found.confusions.tolist(), strict=True
        )
    ]
    best = found.posteriors.argmax(axis=1)
    named = [name for name, is_one in zip(output_ids, is_heard.tolist(), strict=True) if is_one]
    settled = zip(named, scale[best].tolist(), found.posteriors.max(axis=1).tolist(), strict=True)
    shares = tuple(found.shares.tolist())
    return SettledCriterion(voices.criterion_id, None, tuple(scale.tolist()), shares, tuple(errors), tuple(settled))
