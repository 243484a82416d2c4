"""When the second judge of a cascade is needed, and what distributions come to: worked out by hand."""

import json

import numpy as np
import pyarrow as pa
import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.judging.opinions.cascade import foresee_needed, used_rows
from gradebook.tasks.judging.opinions.rows import (
    OpinionRows,
    combined_verdicts,
    first_judge_unsure,
    opinion_rows,
    opinion_scores,
)
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import CascadeSettings, Judge, Opinion, When
from gradebook.tasks.planning import shard_plan as plan_files

LEVELS = [{"id": name, "score": score, "description": name} for name, score in (("bad", 0), ("so", 0.5), ("good", 1))]
TONE = Criterion.model_validate(
    {"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}, "levels": LEVELS}
)
TEXTS = ("output_id", "criterion_id", "request_key", "status", "level_id", "distribution", "evidence", "rationale")
PLANNED = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in (*TEXTS, "paid_by")),
        pa.field("cost_usd", pa.float64()),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
    ]
)
Shares = dict[str, float]
FLAT = ({"bad": 0.6, "so": 0.4}, {"so": 0.4, "good": 0.6})  # nobody's likeliest level, `so`, is the likeliest in all


def cascade(replicates: int = 1, **when: object) -> CascadeSettings:
    first = JudgeSettings(model="cheap", mode="logprobs", replicates=replicates)
    return CascadeSettings(first, JudgeSettings(model="dear"), When.model_validate(when))


def planned_row(output: str, opinion: Opinion, shares: Shares | None) -> dict[str, object]:
    """What a plan has of an opinion: held with these shares, or open."""
    level = max(shares, key=lambda name: (shares or {})[name]) if shares else None
    return {
        "output_id": output,
        "criterion_id": "tone",
        "request_key": f"{output} {opinion}",
        "status": "scored" if shares else None,
        "level_id": level,
        "distribution": json.dumps(shares) if shares else None,
        "judge_index": opinion.judge_index,
        "replicate": opinion.replicate,
        "is_swapped": opinion.is_swapped,
    }


def plan_of(*outputs: tuple[Shares | None, ...]) -> pa.Table:
    """A plan in which the first judge said this of each output, and the second one is still to be asked."""
    rows = [
        planned_row(str(n), Opinion(0, replicate), shares)
        for n, said in enumerate(outputs)
        for replicate, shares in enumerate(said)
    ]
    rows += [planned_row(str(n), Opinion(1), None) for n in range(len(outputs))]
    return pa.Table.from_pylist(rows, PLANNED)


def rows_of(planned: pa.Table, output_count: int) -> OpinionRows:
    keys = pa.array([f"{n} tone" for n in range(output_count)])
    found: OpinionRows = {}
    for opinion in (Opinion(0, 0), Opinion(0, 1), Opinion(1)):
        own = plan_files.rows_of(planned, opinion)
        if own.num_rows:
            table = opinion_rows(keys, own, None)
            found[opinion] = table.append_column("is_replayed", pa.repeat(False, output_count))
    return found


@pytest.mark.parametrize(("share", "expected"), [(0.39, False), (0.41, True)])
def test_a_level_that_no_replicate_gave_counts_with_its_share(share: float, expected: bool):
    # bad 0.6 / 2 = 0.3, so (0.4 + 0.4) / 2 = 0.4, good 0.6 / 2 = 0.3
    assert first_judge_unsure(cascade(2, share_below=share), rows_of(plan_of(FLAT), 1)).tolist() == [expected]


def test_whether_the_first_judge_is_unsure_does_not_hang_on_other_outputs():
    judge, sure = cascade(2, share_below=0.35), ({"so": 1.0}, {"so": 1.0})
    alone, beside = (first_judge_unsure(judge, rows_of(plan_of(*said), len(said))) for said in ([FLAT], [FLAT, sure]))
    assert alone[0] == beside[0]


def test_what_the_first_judge_has_said_tells_whether_the_second_is_needed():
    planned = plan_of(({"bad": 0.9, "good": 0.1},), ({"bad": 0.6, "good": 0.4},), (None,))
    needed = foresee_needed(cascade(share_below=0.8), planned)
    assert needed.to_pylist() == [True, True, True, False, True, None]


def test_of_other_judges_every_row_is_needed():
    single: Judge = JudgeSettings(model="m")
    assert foresee_needed(single, plan_of(({"bad": 1.0},))).to_pylist() == [True, True]


def test_only_the_rows_of_the_second_judge_where_the_first_is_unsure_are_used():
    rows = rows_of(plan_of(({"bad": 0.9, "good": 0.1},), ({"bad": 0.6, "good": 0.4},)), 2)
    used = used_rows(cascade(share_below=0.8), rows)
    assert [table.num_rows for table in used.values()] == [2, 1]


def test_verdict_and_opinions_of_distributions_agree():
    # 0.6 x 0 + 0.4 x 0.5 = 0.2; 0.4 x 0.5 + 0.6 x 1 = 0.8; their mean 0.5; of bad and good the lower
    judge = JudgeSettings(model="m", mode="logprobs", replicates=2)
    rows = {opinion: table for opinion, table in rows_of(plan_of(FLAT), 1).items() if opinion.judge_index == 0}
    verdicts, opinions = combined_verdicts("r", judge, TONE, pa.chunked_array([["0"]]), rows, None)
    assert opinions.column("score").to_pylist() == pytest.approx([0.2, 0.8])
    assert opinions.column("level_id").to_pylist() == ["bad", "good"]
    assert verdicts.select(["level_id", "score"]).to_pylist() == [{"level_id": "bad", "score": pytest.approx(0.5)}]


def test_a_single_distribution_is_the_same_verdict_with_and_without_other_opinions():
    shares = {"bad": 0.2, "so": 0.5, "good": 0.3}  # 0.5 x 0.5 + 0.3 = 0.55, likeliest so
    rows = {opinion: table for opinion, table in rows_of(plan_of((shares,)), 1).items() if opinion.judge_index == 0}
    judge = JudgeSettings(model="m", mode="logprobs")
    verdicts, _ = combined_verdicts("r", judge, TONE, pa.chunked_array([["0"]]), rows, None)
    alone = opinion_scores(TONE, rows[Opinion()]).to_pylist()
    assert verdicts.column("score").to_pylist() == alone == pytest.approx([0.55])
    assert verdicts.column("level_id").to_pylist() == ["so"]


def test_no_rows_are_no_flags():
    assert np.array(foresee_needed(cascade(), plan_of())).tolist() == []
