"""Models of a run ranked by choices between two outputs of a case: people's, the judge's, those of the scores."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import sqrt
from operator import itemgetter
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.model.arrays import Floats
from gradebook.rubrics.statistics.davidson import Choices, Ranking, number_models, rank_models
from gradebook.tasks.agreement.preferences import EQUAL
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query

PEOPLE, JUDGE, SCORES = "people", "judge", "scores"
_TWO_SIDED = 1.959963984540054  # standard deviations that noise exceeds in 5%


@dataclass(frozen=True, slots=True)
class ModelRanking:
    """Ranking of models by Davidson's model. source: people, judge or scores; criterion_id: of the choices.

    tie_margin: difference of two scores up to which they tie. at_equal_length: the ranking with the difference of the
    outputs' log lengths taken out, per doubling; None without choices.
    """

    source: str
    criterion_id: str | None
    models: tuple[str, ...]
    tie_margin: float | None
    ranking: Ranking
    at_equal_length: Ranking | None = None

    def as_json(self) -> dict[str, Any]:
        rows = [
            {"model": name} | asdict(strength) | {"elo": strength.elo}
            for name, strength in zip(self.models, self.ranking.strengths, strict=True)
        ]
        adjusted = self.at_equal_length
        if adjusted is not None:
            for row, strength in zip(rows, adjusted.strengths, strict=True):
                row["at_equal_length"] = strength.value
        return {
            "source": self.source,
            "criterion_id": self.criterion_id,
            "tie_margin": self.tie_margin,
            "reason": self.ranking.reason,
            "length_effect": None if adjusted is None else adjusted.effect,
            "strengths": rows,
        }


def rank_run(connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None) -> tuple[ModelRanking, ...]:
    """Rankings of a published run's models: by people and by the judge's preferences on each criterion, then by the
    overall scores.
    """
    chosen: list[ModelRanking] = []
    for source, select in ((PEOPLE, query("agreement/preferences_of_run")), (JUDGE, query("agreement/judged_choices"))):
        try:
            rows = read_rows(connection, select, run_id=run_id, criterion_id=criterion_id)
        except duckdb.CatalogException:  # a version of the lake before there were such choices
            continue
        chosen += [_of_choices(source, name, list(group)) for name, group in groupby(rows, itemgetter("criterion_id"))]
    if not chosen:
        return ()
    margin = tie_margin(connection, run_id)
    return (*chosen, *_of_scores(read_rows(connection, query("agreement/score_pairs"), run_id=run_id), margin))


def tie_margin(connection: duckdb.DuckDBPyConnection, *run_ids: str) -> float:
    """Difference of two overall scores that the judge's noise alone exceeds in 5%; run_ids: of each side, or of both.

    `EQUAL` if no judge replied several times.
    """
    select = query("agreement/overall_noise")
    variances = [read_rows(connection, select, run_id=run_id)[0]["variance"] or 0.0 for run_id in run_ids]
    return max(EQUAL, _TWO_SIDED * sqrt(sum(variances) * 2 / len(variances)))


def wins_of(differences: Floats, margin: float) -> Floats:
    """1 where the second wins, 0 where the first does, 0.5 within the margin."""
    return np.where(np.abs(differences) <= margin, 0.5, (differences > 0).astype(np.float64))


def _of_choices(source: str, criterion_id: str, rows: Sequence[Row]) -> ModelRanking:
    names = [
        (
            model_name({"model": row["model_a"], "checkpoint": row["checkpoint_a"]}),
            model_name({"model": row["model_b"], "checkpoint": row["checkpoint_b"]}),
        )
        for row in rows
    ]
    wins, longer = (np.array([row[name] for row in rows], dtype=np.float64) for name in ("wins", "longer"))
    models, ranking = _ranked(names, wins, [row["shared"] for row in rows], None)
    varies = bool(np.ptp(longer) > EQUAL)
    adjusted = _ranked(names, wins, [row["shared"] for row in rows], longer)[1] if varies else None
    return ModelRanking(source, criterion_id, models, None, ranking, adjusted)


def _of_scores(rows: Sequence[Row], margin: float) -> Iterator[ModelRanking]:
    if rows:
        wins = wins_of(np.array([row["difference"] for row in rows]), margin)
        names = [(row["model_a"], row["model_b"]) for row in rows]
        models, ranking = _ranked(names, wins, [row["shared"] for row in rows], None)
        yield ModelRanking(SCORES, None, models, margin, ranking)


def _ranked(
    names: Sequence[tuple[str, str]], wins: Floats, shared: Sequence[str], covariate: Floats | None
) -> tuple[tuple[str, ...], Ranking]:
    models, firsts, seconds = number_models(names)
    cases = np.unique(np.array(shared), return_inverse=True)[1].ravel()
    return models, rank_models(Choices(firsts, seconds, wins, cases, covariate), len(models))
