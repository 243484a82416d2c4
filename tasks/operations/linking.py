"""Link of two rubric versions: scores of the same outputs by both, so that a trend can be read across the change."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.distributions import measure_spread
from gradebook.rubrics.statistics.intervals import DIFFERENCES, mean_interval, measure_mean
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL
from gradebook.rubrics.statistics.significance import Chance
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date, upgrade_lake
from gradebook.tasks.lake.rows import Row, insert_rows
from gradebook.tasks.operations.anchors import intact_outputs, read_anchors
from gradebook.tasks.rewards.outputs import ReadOutput, Score
from gradebook.tasks.rewards.scorer import RubricScorer, score_stored
from gradebook.tasks.rubric_store.versions import find_rubric, store_rubric

LEAST_CASES = 30  # below, an offset is refused
USUAL_CASES = 150  # below, a note says that the interval is wide


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """Rubric versions to link. judge: of both, None for rubrics without judged criteria. budget_usd: half for each.

    baseline: run whose answers preferences and similarities compare with.
    """

    old: str
    new: str
    anchor_set: str
    judge: str | None = None
    budget_usd: float | None = None
    baseline: str | None = None


def link_rubrics(lake: Lake, request: LinkRequest, now: datetime) -> tuple[Row, ...]:
    """Score the anchors by both versions, and store how their scores differ; returns rows of `rubric_links`.

    Raises `InputError` for a wrong request or under 30 cases, `UnfinishedError` if the judge does not answer.
    """
    upgrade_lake(lake)
    old_rubric, new_rubric = find_rubric(request.old, lake), find_rubric(request.new, lake)
    if (old_rubric.id, old_rubric.version) == (new_rubric.id, new_rubric.version) or old_rubric.id != new_rubric.id:
        versions = f"{old_rubric.id} {old_rubric.version} and {new_rubric.id} {new_rubric.version}"
        raise InputError("link", versions, "two versions of one rubric")
    with connect_up_to_date(lake) as connection:
        outputs = intact_outputs(connection, read_anchors(connection, request.anchor_set))
    half = None if request.budget_usd is None else request.budget_usd / 2
    judge = None if request.judge is None else read_judge(request.judge, os.environ)
    sides = []
    for rubric in (old_rubric, new_rubric):
        with RubricScorer(
            rubric, request.judge, on_fault="raise", budget_usd=half, lake=lake, baseline=request.baseline
        ) as scorer:
            sides.append(score_stored(scorer, outputs))
    link = {
        "rubric_id": old_rubric.id,
        "old_version": old_rubric.version,
        "new_version": new_rubric.version,
        "made_at": now,
    }
    link |= {"anchor_set": request.anchor_set, "judge": judge and judge.judge}
    link |= {"judge_digest": judge and judge.judge_digest}
    hint = (
        "judged criteria need a --judge"
        if judge is None and (old_rubric.asked_criteria or new_rubric.asked_criteria)
        else ""
    )
    rows = [
        link | row for row in _link_rows(outputs, sides[0], sides[1], _shared_criteria(old_rubric, new_rubric), hint)
    ]
    _store_links(lake, (old_rubric, new_rubric), rows, now)
    return tuple(rows)


def _shared_criteria(old: Rubric, new: Rubric) -> list[str]:
    old_ids = {criterion.id for criterion in old.criteria}
    return [criterion.id for criterion in new.criteria if criterion.id in old_ids]


def _link_rows(
    outputs: Sequence[ReadOutput], of_old: Sequence[Score], of_new: Sequence[Score], criteria: Sequence[str], hint: str
) -> list[Row]:
    """Rows of the overall score, and of each criterion of both versions that enough cases have scores on.

    hint: for the error where too few cases have scores.
    """
    cases = np.array([anchor.output.cluster or anchor.output.case_id for anchor in outputs])

    def values(scores: Sequence[Score], name: str) -> Floats:
        criterion_scores = [
            output_score.score if not name else output_score.criteria[name].score for output_score in scores
        ]
        return np.array([math.nan if value is None else value for value in criterion_scores])

    overall = _link_figures(values(of_old, ""), values(of_new, ""), cases)
    if overall is None:
        counts = " and ".join(
            str(sum(output_score.score is not None for output_score in side)) for side in (of_old, of_new)
        )
        summary = (
            f"under {LEAST_CASES} cases with a score by both versions ({counts} of {counted(len(outputs), 'output')})"
        )
        raise InputError("anchors", summary, f"{USUAL_CASES} or more", hint)
    rows = [{"scope": OVERALL, "scope_id": ""} | overall]
    of_criteria = [(name, _link_figures(values(of_old, name), values(of_new, name), cases)) for name in criteria]
    rows += [{"scope": CRITERION, "scope_id": name} | figures for name, figures in of_criteria if figures is not None]
    return rows


def _link_figures(old: Floats, new: Floats, cases: np.ndarray[tuple[int], np.dtype[np.str_]]) -> Row | None:
    """Offset, and slope where the spreads differ beyond chance (mean and sigma linking); None for few cases."""
    is_known = ~np.isnan(new - old)
    of_old, of_new, clusters = old[is_known], new[is_known], cases[is_known]
    if len(set(clusters.tolist())) < LEAST_CASES:
        return None
    mean = measure_mean(of_new - of_old, clusters)
    interval = mean_interval(mean, bounds=DIFFERENCES)
    spread = measure_spread(of_old, of_new, np.unique(clusters, return_inverse=True)[1])
    slope = spread.sd_ratio if spread.outcome in (Chance.ABOVE, Chance.BELOW) else None
    return {
        "n": int(is_known.sum()),
        "case_count": mean.unit_count,
        "unscored_count": int((~is_known).sum()),
        "offset_mean": float(mean.mean),
        "offset_low": interval.low,
        "offset_high": interval.high,
        "sd_ratio": spread.sd_ratio,
        "sd_ratio_low": spread.sd_ratio_low,
        "sd_ratio_high": spread.sd_ratio_high,
        "slope": slope,
        "intercept": None if slope is None else float(of_new.mean() - slope * of_old.mean()),
    }


def _store_links(lake: Lake, rubrics: tuple[Rubric, Rubric], rows: Sequence[Row], now: datetime) -> None:
    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        for rubric in rubrics:
            store_rubric(connection, rubric, now)
        insert_rows(connection, "rubric_links", rows)

    commit(lake, f"link {rows[0]['rubric_id']} {rows[0]['old_version']} and {rows[0]['new_version']}", body)
