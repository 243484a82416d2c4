"""When the second judge of a cascade is needed, and what distributions come to: worked out by hand."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.judging.opinions.rows import (
    Escalated,
    OpinionRows,
    combined_verdicts,
    find_escalated,
    opinion_rows,
    predict_needed,
    ruled_rows,
    used_rows,
)
from gradebook.tasks.judging.settings.judge import CascadeSettings, Judge, JudgeSettings, Opinion, When
from gradebook.tasks.planning import shard_plan as plan_files
from tests.support.law_over import law_over

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
GATE = TONE.model_copy(update={"id": "gate", "gate": True})
MET = TONE.model_copy(update={"threshold": 0.6})
Shares = dict[str, float]
FLAT = ({"bad": 0.6, "so": 0.4}, {"so": 0.4, "good": 0.6})  # nobody's likeliest level, `so`, is the likeliest in all


def cascade(replicates: int = 1, **when: object) -> CascadeSettings:
    first = JudgeSettings(model="cheap", mode="logprobs", replicates=replicates)
    return CascadeSettings(first, JudgeSettings(model="dear"), When.model_validate(when))


def planned_row(output: str, opinion: Opinion, shares: Shares | None) -> dict[str, object]:
    """Row of a plan for an opinion: stored with these shares, or open."""
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


KEYS = pa.array([f"{n} tone" for n in range(10)])


def asked(judge: CascadeSettings, *said: tuple[Shares | None, ...], criterion: Criterion = TONE) -> list[bool]:
    """Whether the second judge is asked about outputs of which the first said this."""
    found: list[bool] = escalation(judge, plan_of(*said), len(said), criterion).is_asked.tolist()
    return found


def escalation(judge: CascadeSettings, planned: pa.Table, output_count: int, criterion: Criterion = TONE) -> Escalated:
    keys = pa.array([f"{n} {criterion.id}" for n in range(output_count)])
    return find_escalated(judge.when, keys, rows_of(planned, range(output_count)), [criterion])


def rows_of(planned: pa.Table, outputs: int | Sequence[int]) -> OpinionRows:
    numbers = range(outputs) if isinstance(outputs, int) else outputs
    output_count = len(numbers)
    keys = pa.array([f"{n} tone" for n in numbers])
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
    assert asked(cascade(2, share_below=share), FLAT) == [expected]


def test_whether_the_first_judge_is_unsure_does_not_hang_on_other_outputs():
    judge, sure = cascade(2, share_below=0.35), ({"so": 1.0}, {"so": 1.0})
    assert asked(judge, FLAT)[0] == asked(judge, FLAT, sure)[0]


SURE, EVEN, CLEAR = (
    ({"bad": 0.02, "good": 0.98},),
    ({"bad": 0.45, "so": 0.1, "good": 0.45},),
    ({"so": 0.2, "good": 0.8},),
)


@law_over(
    ("when", "criterion", "expected"),
    [
        # entropies: 0.98 log2(1/0.98) + 0.02 log2(1/0.02) = 0.14; 2 x 0.45 log2(1/0.45) + 0.1 log2(10) = 1.37; 0.72
        ({"entropy_above": 0.72}, TONE, [False, True, True]),
        ({"entropy_above": 0.73}, TONE, [False, True, False]),
        ({"entropy_above": 0.0}, TONE, [True, True, True]),
        # margins: 0.96, 0, 0.6
        ({"margin_below": 0.6}, TONE, [False, True, False]),
        ({"margin_below": 0.61}, TONE, [False, True, True]),
        ({"share_below": 0.5, "margin_below": 0.61}, TONE, [False, True, True]),
        # expected scores: 0.98, 0.5, 0.9; from the threshold 0.6: 0.38, 0.1, 0.3
        ({"near_threshold": 0.31}, MET, [False, True, True]),
        ({"near_threshold": 0.29}, MET, [False, True, False]),
        # probabilities of the gate's best level, from 0.5: 0.48, 0.05, 0.3
        ({"near_threshold": 0.06}, GATE, [False, True, False]),
        ({"near_threshold": 1.0}, TONE, [False, False, False]),  # no threshold, no gate
    ],
)
def test_each_rule_asks_the_second_judge_where_its_measure_says(when: dict[str, float], criterion, expected):
    assert asked(cascade(**when), SURE, EVEN, CLEAR, criterion=criterion) == expected


def test_an_audit_asks_the_second_judge_about_the_same_share_of_outputs_in_each_run():
    judge, count = cascade(audit=0.1), 2_000
    planned = plan_of(*[SURE] * count)
    found = escalation(judge, planned, count)
    assert not found.is_unsure.any()
    assert found.is_audited.sum() == pytest.approx(200, abs=60)  # 4.5 standard deviations of 13.4
    assert (escalation(judge, planned, count).is_audited == found.is_audited).all()
    half = escalation(cascade(audit=0.05), planned, count).is_audited
    assert not (half & ~found.is_audited).any()  # a smaller audit is part of a larger one


def test_the_verdict_of_an_audited_output_is_the_second_judges_and_its_vote_says_so():
    judge = cascade(audit=0.5)
    number = next(n for n in range(99) if escalation(judge, plan_of(*[SURE] * (n + 1)), n + 1).is_audited[n])
    rows = [planned_row(str(number), Opinion(0), SURE[0]), planned_row(str(number), Opinion(1), {"bad": 1.0})]
    rows_by_vote = rows_of(pa.Table.from_pylist(rows, PLANNED), [number])
    found = find_escalated(judge.when, pa.array([f"{number} tone"]), rows_by_vote, [TONE])
    verdicts, votes = combined_verdicts("r", judge, TONE, pa.chunked_array([[str(number)]]), rows_by_vote, found)
    assert verdicts.column("level_id").to_pylist() == ["bad"]
    assert votes.select(["level_id", "asked_for"]).to_pylist() == [
        {"level_id": "good", "asked_for": None},
        {"level_id": "bad", "asked_for": "audit"},
    ]


def test_a_cascade_of_the_older_rules_has_its_older_digest():
    older = {"share_below": 0.8, "disagreement": True, "criteria": ["tone"], "unscored": True}
    assert cascade(**older).identity["when"] == older
    assert cascade(**older, margin_below=0.0).identity["when"] == older | {"margin_below": 0.0}


def test_what_the_first_judge_has_said_tells_whether_the_second_is_needed():
    planned = plan_of(({"bad": 0.9, "good": 0.1},), ({"bad": 0.6, "good": 0.4},), (None,))
    needed = predict_needed(cascade(share_below=0.8), planned)
    assert needed.to_pylist() == [True, True, True, False, True, None]


def test_of_other_judges_every_row_is_needed():
    single: Judge = JudgeSettings(model="m")
    assert predict_needed(single, plan_of(({"bad": 1.0},))).to_pylist() == [True, True]


def test_only_the_rows_of_the_second_judge_where_the_first_is_unsure_are_used():
    rows = rows_of(plan_of(({"bad": 0.9, "good": 0.1},), ({"bad": 0.6, "good": 0.4},)), 2)
    used = used_rows(cascade(share_below=0.8), KEYS[:2], rows)
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
    alone = ruled_rows(TONE, rows[Opinion()]).column("score").to_pylist()
    assert verdicts.column("score").to_pylist() == alone == pytest.approx([0.55])
    assert verdicts.column("level_id").to_pylist() == ["so"]


def test_no_rows_are_no_flags():
    assert np.array(predict_needed(cascade(), plan_of())).tolist() == []
