"""tasks/comparing/compare: pairing, sums of the parts, and rules that fail a comparison."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradebook.flows.display.comparison import show_comparison
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.comparing.compare import Comparison, ComparisonOptions, compare_runs
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from tests.support.law_over import law_over
from tests.support.nightly import matrix
from tests.support.scored_lake import COMPARED_MARTS, Scored, make_lake, write_runs, write_scores

LEVELS = [{"id": f"l{score}", "score": score / 2, "description": "x"} for score in range(3)]


def rubric(rubric_id: str, *criteria: dict[str, Any], **more: Any) -> Rubric:
    shared = {"description": "?", "method": {"type": "ratings"}, "levels": LEVELS}
    return Rubric.model_validate(
        {"id": rubric_id, "version": "1.0.0", "criteria": [shared | each for each in criteria]} | more
    )


PLAIN = rubric(
    "plain",
    {"id": "tone", "weight": 3, "category": "voice"},
    {"id": "facts", "weight": 1},
    {"id": "safe", "gate": True, "threshold": 0.5},
    pass_threshold=0.5,
)
POINTS = rubric("points", {"id": "right", "weight": 2}, {"id": "rude", "weight": -3})
SKIPPED = rubric("skipped", {"id": "one", "weight": 1}, {"id": "two", "weight": 2}, missing="skip")
TREE = rubric(
    "tree",
    {"id": "a", "category": "x", "weight": 3},
    {"id": "b", "category": "x"},
    {"id": "c"},
    categories=[{"id": "x", "weight": 2}],
    missing="skip",
)

DEEP = rubric(
    "deep",
    {"id": "a", "category": "inner", "weight": 3},
    {"id": "b", "category": "inner"},
    {"id": "c", "category": "outer", "weight": -1},
    {"id": "d", "category": "outer"},
    {"id": "e"},
    categories=[{"id": "inner", "parent": "outer", "weight": 2}, {"id": "outer", "weight": 3}],
    missing="skip",
)

ALONE = rubric("alone", {"id": "tone", "weight": 0.7, "category": "voice"})
OPTIONAL = rubric("optional", {"id": "tone", "weight": 3}, {"id": "tools", "required": False})


def plain_rows(name: str, case_count: int = 12) -> list[dict[str, Any]]:
    """Cases of two samples by two models: in run b the tone of model m falls, its facts rise in some."""
    rng = np.random.default_rng(7)
    rows = []
    for case in range(case_count):
        for sample in range(2):
            tone, facts = rng.choice([0.5, 1.0]), rng.choice([0.0, 0.5])
            falls = name == "b" and case != 3
            scores = {"tone": tone - 0.5 * falls, "facts": facts + 0.5 * (falls and case % 2), "safe": 1.0}
            rows.append({"case_id": f"c{case}", "sample_index": sample, "scores": scores})
            rows.append({"case_id": f"c{case}", "sample_index": sample, "model": "n", "scores": scores})
    return rows


def refused_rows(name: str, **scores: float | None) -> list[dict[str, Any]]:
    """Two cases: in b one rose by 2/3, and the other has the given scores, its criterion `three` does not apply."""
    right = {"case_id": "c0", "scores": {"one": 1.0, "two": 1.0 if name == "b" else 0.0}}
    reasons = {"two": "refused", "one": "not_applicable: no claim"}
    other = {"one": 1.0, "two": 1.0} | (scores if name == "b" else {})
    return [right, {"case_id": "c1", "scores": other, "reasons": reasons}]


def refusing_judge(missing: str, seed: int) -> list[tuple[Rubric, list[dict[str, Any]]]]:
    """Runs of two equal models; the judge refuses 60% of the bad outputs of the second."""
    found, rng = (
        rubric(f"refusal_{missing}", {"id": "right", "weight": 2}, {"id": "kind"}, missing=missing),
        np.random.default_rng(seed),
    )
    right, kind = rng.random((2, 200)) < 0.7, rng.random((2, 200)) < 0.95
    is_refused = ~right[1] & (rng.random(200) < 0.6)
    scores = [
        [
            {"right": None if run and is_refused[i] else float(right[run, i]), "kind": float(kind[run, i])}
            for i in range(200)
        ]
        for run in range(2)
    ]
    return [(found, [{"case_id": f"c{i}", "scores": each} for i, each in enumerate(of_run)]) for of_run in scores]


def same_rows(name: str, other_text: int = -1, other_score: int = -1) -> list[dict[str, Any]]:
    """30 cases with the same texts under other ids in both runs, apart from one text or score."""
    return [
        {
            "case_id": f"c{case}",
            "output": "other" if name == "b" and case == other_text else "text",
            "scores": {"one": 0.5 * (case % 2 and not (name == "b" and case == other_score)), "two": 1.0},
        }
        for case in range(30)
    ]


SAME = {"all": {}, "text": {"other_text": 4}, "score": {"other_score": 5}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Runs a and b of each rubric."""
    lake = make_lake(Path(tmp_path_factory.mktemp("compared")))
    runs: dict[str, Scored] = {}
    for name in "ab":
        runs[name] = (PLAIN, plain_rows(name))
        runs[f"long_{name}"] = (PLAIN, plain_rows(name, 40))
    rng = np.random.default_rng(8)
    for found in (POINTS, SKIPPED, TREE):
        for name in "ab":
            runs[f"{found.id}_{name}"] = (found, random_rows(found, rng))
    old = random_rows(DEEP, rng)
    runs["deep_a"] = (DEEP, old)
    runs["deep_b"] = (DEEP, [row | {"scores": turned(row["scores"])} for row in old])
    runs["gaps_a"] = (TREE, [{"case_id": "c", "scores": {"a": 1.0, "b": None, "c": 0.0}}])
    runs["gaps_b"] = (TREE, [{"case_id": "c", "scores": {"a": 0.0, "b": None, "c": 0.0}}])
    gapped = {"c": {"tone": 0.5, "tools": None}, "d": {"tone": 0.5, "tools": 0.0}}
    for name, tone in (("a", 0.5), ("b", 1.0)):
        rows = [{"case_id": case, "scores": scores | {"tone": tone}} for case, scores in gapped.items()]
        runs[f"optional_{name}"] = (OPTIONAL, rows)
    runs |= uneven_runs()
    for name, shift in (("a", 0), ("b", 1)):  # scores of a panel of three, on levels of thirds
        tones = [((case + shift * (case % 4 > 0)) % 10) / 9 for case in range(60)]
        runs[f"alone_{name}"] = (
            ALONE,
            [{"case_id": f"c{n}", "scores": {"tone": tone}} for n, tone in enumerate(tones)],
        )
    tones = {"x": 0.0, "y": 0.5, "z": 1.0}
    same = [{"case_id": "c", "output_id": name, "scores": {"tone": tone}} for name, tone in tones.items()]
    for name in "ab":
        runs[f"same_{name}"] = (PLAIN, same)
        runs[f"none_{name}"] = (TREE, [{"case_id": "c", "scores": {"a": None, "b": None, "c": None}}])
    runs["more_b"] = (PLAIN, [row | {"model": model} for row in plain_rows("a")[::2] for model in "mo"])
    own = [{"case_id": "c", "scores": {"tone": 0.5, "facts": 0.5, "safe": 1.0, "own": 0.0}, "own": {"own": 2.0}}]
    runs["own_a"] = (PLAIN, own)
    runs["own_c"] = (PLAIN, [own[0] | {"scores": own[0]["scores"] | {"more": 1.0}, "own": {"more": 2.0}}])
    runs["own_b"] = (PLAIN, [own[0] | {"scores": own[0]["scores"] | {"own": 1.0}}])
    gapped, two = {"id": "one"}, {"id": "two", "weight": 2}
    for missing in ("null", "skip"):
        found = rubric(f"gap_{missing}", gapped, two, missing=missing)
        refusals = refusing_judge(missing, 3)
        for name, of_run in zip("ab", refusals, strict=True):
            runs[f"gap_{missing}_{name}"] = (found, refused_rows(name, two=None))
            runs[f"refusal_{missing}_{name}"] = of_run
    excused = rubric("excused", gapped | {"required": False}, two)
    for name in "ab":
        runs[f"excused_{name}"] = (excused, refused_rows(name, one=None))
        runs |= {
            f"{what}_{name}": (rubric("same", {"id": "one"}, {"id": "two"}), same_rows(name, **changed))
            for what, changed in SAME.items()
        }
    write_runs(lake, runs, COMPARED_MARTS)
    return lake


def uneven_runs() -> dict[str, Scored]:
    """Runs of six cases, one of them with three samples that fall from 1 to 0."""
    runs: dict[str, Scored] = {}
    for weights in ("cases", "outputs"):
        counted = rubric(f"by_{weights}", {"id": "tone"}, weights=weights)
        for name in "ab":
            places = [(0, sample) for sample in range(3)] + [(case, 0) for case in range(1, 6)]
            scored = [(case, sample, 0.0 if name == "b" and case == 0 else 1.0) for case, sample in places]
            rows = [{"case_id": f"c{case}", "sample_index": at, "scores": {"tone": tone}} for case, at, tone in scored]
            runs[f"by_{weights}_{name}"] = (counted, rows)
    for name, rate in (("a", 0.9), ("b", 0.2)):
        runs |= {f"lost_{name}": (LOST, lost_rows(rate)), f"unscored_{name}": (LOST, lost_rows(rate, 0.25))}
    return runs


LOST = rubric("lost", {"id": "tone"}, {"id": "safe"}, missing="skip", pass_threshold=0.6)


def lost_rows(rate: float, unscored_rate: float = 0.0) -> list[dict[str, Any]]:
    """20 cases of three samples but for one. rate: of scores of 1; unscored_rate: of those after the first sample."""
    rng, rows = np.random.default_rng(5), []
    for case, sample in [(case, sample) for case in range(20) for sample in range(3)][:-1]:
        scores = [float(score) for score in rng.random(2) < rate]
        is_scored = (rng.random(2) >= unscored_rate) | (sample == 0)
        tone, safe = (score if known else None for score, known in zip(scores, is_scored, strict=True))
        rows.append({"case_id": f"c{case}", "sample_index": sample, "scores": {"tone": tone, "safe": safe}})
    return rows


def random_rows(found: Rubric, rng: np.random.Generator) -> list[dict[str, Any]]:
    """30 cases; with `missing: skip` a third of the scores is missing."""
    levels = [0.0, 0.5, 1.0] + [None] * (found.missing == "skip")
    draw = {criterion.id: rng.choice(np.array(levels, dtype=object), 30) for criterion in found.criteria}
    return [{"case_id": f"c{case}", "scores": {name: draw[name][case] for name in draw}} for case in range(30)]


def turned(scores: dict[str, float | None]) -> dict[str, float | None]:
    """Mirror every score; missing ones stay missing."""
    return {name: None if score is None else 1.0 - score for name, score in scores.items()}


@pytest.fixture(scope="module")
def compared(lake: Lake) -> Comparison:
    return compare_runs(lake, "a", "b", ComparisonOptions(("m", "m"), resample_count=500, shares_at=(0.5,)))


def test_the_overall_row_counts_cases_and_not_samples(compared):
    overall = compared.models[0].overall
    assert (overall.figures.n, overall.figures.case_count) == (24, 12)
    assert overall.figures.diff_low < overall.figures.mean_diff < overall.figures.diff_high


@pytest.mark.parametrize(("weights", "difference", "is_said"), [("cases", -1 / 6, True), ("outputs", -3 / 8, False)])
def test_cases_with_unlike_numbers_of_pairs_count_once_unless_the_rubric_counts_outputs(
    lake, weights, difference, is_said
):
    found = compare_runs(lake, f"by_{weights}_a", f"by_{weights}_b", ComparisonOptions(resample_count=0))
    figures = found.models[0].overall.figures
    assert (figures.mean_diff, figures.case_count) == (pytest.approx(difference), 6)
    assert any("count once each" in reason for reason in found.not_compared) is is_said


@pytest.mark.parametrize(("weights", "difference"), [("cases", -1 / 6), ("outputs", -3 / 8)])
def test_unpaired_means_count_each_case_once_unless_the_rubric_counts_outputs(lake, weights, difference):
    found = compare_runs(lake, f"by_{weights}_a", f"by_{weights}_b", ComparisonOptions(is_unpaired=True))
    figures = found.models[0].overall.figures
    assert (figures.mean_diff, figures.n, figures.case_count) == (pytest.approx(difference), 16, 6)
    assert f"each {weights[:-1]} counted once" in found.banner


def test_a_case_of_which_some_outputs_have_no_score_counts_once(lake):
    (found,) = compare_runs(lake, "unscored_a", "unscored_b", ComparisonOptions(resample_count=0)).models
    tone_by_case: dict[str, list[float]] = {}
    for row in lost_rows(0.9, 0.25):
        if row["scores"]["tone"] is not None:
            tone_by_case.setdefault(row["case_id"], []).append(row["scores"]["tone"])
    (tone,) = [row.figures for row in found.criteria if row.scope_id == "tone"]
    assert tone.mean_a == pytest.approx(np.mean([np.mean(tones) for tones in tone_by_case.values()]))


@pytest.mark.nightly
def test_means_of_cases_with_unlike_numbers_of_scores_are_those_of_the_tables(tmp_path):
    lake, rows = make_lake(tmp_path), lost_rows(0.9, 0.25)
    write_runs(lake, dict.fromkeys("ab", (LOST, rows)), ("output_scores", "run_scores", "criterion_scores"))
    (found,) = compare_runs(lake, "a", "b", ComparisonOptions(resample_count=0)).models
    means = {(row.scope, row.scope_id): row.figures.mean_a for row in found.rows}
    means["passes", ""] = found.overall.passes.pass_rate_a
    with connect_up_to_date(lake) as connection:
        tables = connection.execute(
            "select 'overall', '', mean from run_scores where run_id = 'a' "
            "union all select 'passes', '', pass_rate from run_scores where run_id = 'a' "
            "union all select 'criterion', criterion_id, mean from criterion_scores where run_id = 'a'"
        ).fetchall()
    assert {(scope, scope_id): mean for scope, scope_id, mean in tables} == pytest.approx(means, abs=1e-9)


def test_a_lost_sample_leaves_no_gate_undecided(lake):
    rule = GateRule("p_wilcoxon < 0.05 and p_mcnemar < 0.05 and mean_diff < 0")
    options = ComparisonOptions(gate=rule, resample_count=0)
    found = compare_runs(lake, "lost_a", "lost_b", options)
    overall = found.models[0].overall.figures
    assert (found.gate.outcome, overall.release_power is None) == ("failed", False)


def test_a_second_opinion_draws_the_criteria_together_and_decides_nothing(lake):
    options = ComparisonOptions(("m", "m"), resample_count=0, has_second_opinion=True)
    found = compare_runs(lake, "a", "b", options)
    opinion = found.models[0].second_opinion
    plain = {row.scope_id: row.figures.mean_diff for row in found.models[0].criteria}
    assert {row["criterion_id"]: row["difference"] for row in opinion.rows()} == pytest.approx(plain)
    lowest = opinion.rows()[0]
    assert lowest["criterion_id"] == "tone" and plain["tone"] < lowest["shrunk"] < 0 and lowest["high"] < 0
    assert found.as_json()["second_opinions"][0]["criteria"][0] == lowest


def test_regressions_are_named(lake):
    # the tone fell by half a level in 39 of 40 cases: category voice is the tone alone
    found = compare_runs(lake, "long_a", "long_b", ComparisonOptions(("m", "m"), resample_count=0))
    assert [(row.scope, row.scope_id) for row in found.regressions] == [
        ("overall", ""),
        ("category", "voice"),
        ("criterion", "tone"),
    ]


def test_one_test_counts_once_in_the_family(lake):
    found = compare_runs(lake, "long_a", "long_b", ComparisonOptions(("m", "m"), resample_count=0)).models[0]
    assert found.categories[0].chance == found.criteria[0].chance > found.criteria[0].figures.p


@pytest.mark.parametrize("is_unpaired", [False, True])
def test_the_only_criterion_is_one_test_with_the_overall_score_and_its_category(lake, is_unpaired):
    # an overall score has 12 digits, the score of a level 16
    (found,) = compare_runs(
        lake, "alone_a", "alone_b", ComparisonOptions(resample_count=0, is_unpaired=is_unpaired)
    ).models
    assert found.overall is not None and found.overall.figures.p is not None
    assert {row.figures.p_family for row in found.rows} == {found.overall.figures.p}


def test_a_category_is_the_weighted_mean_of_its_criteria(compared):
    (voice,) = [row for row in compared.models[0].categories if row.scope_id == "voice"]
    (tone,) = [row for row in compared.models[0].criteria if row.scope_id == "tone"]
    assert voice.figures.mean_diff == pytest.approx(tone.figures.mean_diff)


def test_a_category_pairs_outputs_that_are_held_to_other_criteria_of_their_own(lake):
    (pair,) = compare_runs(lake, "own_a", "own_c", ComparisonOptions(resample_count=0)).models
    (voice,) = pair.categories
    assert (pair.overall.counts.unpaired_count, pair.overall.counts.held_otherwise_count) == (2, 2)
    assert (voice.figures.n, voice.counts.unpaired_count) == (1, 0)


def test_p_is_adjusted_over_the_criteria(compared):
    rows = [row.figures for row in compared.models[0].criteria]
    assert rows[0].p_adjusted == pytest.approx(3 * rows[0].p)  # the smallest of three
    assert all(row.p_adjusted >= row.p for row in rows)


def test_the_parts_add_up_with_chosen_and_uniform_weights(compared):
    # tone -0.5 x 11/12 at 3/4, facts +0.5 x 5/12 (odd cases but 3) at 1/4; uniform at 1/2 each
    parts = {part.criterion_id: part for part in compared.models[0].explanation.parts}
    assert parts["tone"].part == pytest.approx(-0.5 * 11 / 12 * 3 / 4, abs=1e-12)
    assert parts["facts"].uniform_part == pytest.approx(0.5 * 5 / 12 / 2, abs=1e-12)
    total = sum(part.part for part in parts.values())
    assert total == pytest.approx(compared.models[0].overall.figures.mean_diff, abs=1e-12)


@pytest.mark.parametrize("name", ["points", "skipped", "tree", "own"])
def test_the_parts_add_up_whatever_the_rubric(lake, name):
    (pair,) = compare_runs(lake, f"{name}_a", f"{name}_b", ComparisonOptions(resample_count=0)).models
    total = sum(part.part for part in pair.explanation.parts)
    assert total == pytest.approx(pair.overall.figures.mean_diff, abs=1e-12)


@pytest.mark.parametrize(("name", "has_rest"), [("points", False), ("own", False), ("skipped", True), ("tree", True)])
def test_only_missing_scores_leave_a_remainder(lake, name, has_rest):
    (pair,) = compare_runs(lake, f"{name}_a", f"{name}_b", ComparisonOptions(resample_count=0)).models
    assert ("(unscored)" in [part.criterion_id for part in pair.explanation.parts]) is has_rest


def test_a_missing_score_on_both_sides_leaves_no_remainder(lake):
    # x {a: 3, b: 1} of weight 2 beside c of weight 1; b is skipped: a counts 2/3, b nothing
    (pair,) = compare_runs(lake, "gaps_a", "gaps_b", ComparisonOptions(resample_count=0)).models
    parts = {part.criterion_id: part.part for part in pair.explanation.parts}
    assert parts == {"a": pytest.approx(-2 / 3), "b": 0.0, "c": 0.0}


def test_an_optional_criterion_without_a_score_takes_no_part_of_the_weight(lake):
    # tone +0.5: of the whole in case c, of 3/4 in d
    (pair,) = compare_runs(lake, "optional_a", "optional_b", ComparisonOptions(resample_count=0)).models
    parts = {part.criterion_id: part.part for part in pair.explanation.parts}
    assert parts == {"tone": pytest.approx((0.5 + 0.375) / 2), "tools": 0.0}
    assert pair.overall.figures.mean_diff == pytest.approx(0.4375)


def test_missing_scores_on_both_sides_leave_no_remainder_at_any_depth(lake):
    (pair,) = compare_runs(lake, "deep_a", "deep_b", ComparisonOptions(resample_count=0)).models
    assert [part.criterion_id for part in pair.explanation.parts] == list("abcde")
    assert sum(part.part for part in pair.explanation.parts) == pytest.approx(pair.overall.figures.mean_diff, abs=1e-12)


def test_a_per_case_criterion_has_its_part(lake):
    # weights 3, 1 and 2 of the row: its criterion rose by 1 of 6 x 2
    (pair,) = compare_runs(lake, "own_a", "own_b", ComparisonOptions(resample_count=0)).models
    assert {part.criterion_id: part.part for part in pair.explanation.parts}["own"] == pytest.approx(1 / 3)


def test_a_difference_of_points_may_be_beyond_one(lake):
    (pair,) = compare_runs(lake, "points_a", "points_b", ComparisonOptions(resample_count=0)).models
    found = pair.overall.figures
    assert found.diff_low < found.mean_diff < found.diff_high


def test_the_cases_that_lost_most_are_shown_with_their_losses(compared):
    # of the 11 that fell, the even cases lost 3/8 and gained nothing
    cases = compared.models[0].explanation.lost_most
    assert len(cases) == 10
    assert (cases[0].difference, cases[0].criteria[0][0]) == (pytest.approx(-0.375), "tone")
    assert "c3" not in [case.case_id for case in cases]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", *matrix(["points", "skipped", "own", "gaps"])])
def test_one_criterion_at_a_time_gives_the_same_bits(lake, monkeypatch, name):
    runs = ("a", "b") if name == "plain" else (f"{name}_a", f"{name}_b")
    at_once = compare_runs(lake, *runs, ComparisonOptions(resample_count=50))
    monkeypatch.setattr("gradebook.tasks.comparing.case_pairs.PART_ROWS", 1)
    assert repr(compare_runs(lake, *runs, ComparisonOptions(resample_count=50)).as_json()) == repr(at_once.as_json())


def test_the_share_at_a_score_is_of_the_pairs(compared):
    ((score, share_a, share_b),) = compared.models[0].explanation.shares_at
    assert score == 0.5
    assert 0 <= share_a < share_b <= 1


def test_no_scored_pair_has_no_share_at_a_score(lake):
    found = compare_runs(lake, "none_a", "none_b", ComparisonOptions(resample_count=0, shares_at=(0.5,))).models
    assert found[0].explanation.shares_at == ()


def test_a_share_at_a_score_is_refused_for_different_rubrics(lake):
    found = compare_runs(lake, "own_a", "points_a", ComparisonOptions(resample_count=0, shares_at=(0.5,)))
    assert found.not_compared[-1] == "--share-at: the rubrics differ, so there are no overall scores"


def test_outputs_with_the_same_case_and_sample_are_paired_with_themselves(lake):
    (pair,) = compare_runs(lake, "same_a", "same_b", ComparisonOptions(resample_count=0)).models
    (tone,) = pair.criteria
    assert (tone.figures.tied_count, tone.counts.unpaired_count, tone.counts.ambiguous_count) == (3, 0, 0)


def test_two_models_of_one_run_are_paired(lake):
    found = compare_runs(lake, "a", options=ComparisonOptions(resample_count=0)).models
    assert [(pair.model_a, pair.model_b, pair.overall.figures.tied_count) for pair in found] == [("m", "n", 24)]


def test_a_named_model_is_on_the_side_where_it_is_named(lake):
    found = compare_runs(lake, "a", options=ComparisonOptions((None, "m"), resample_count=0)).models
    assert [(pair.model_a, pair.model_b) for pair in found] == [("n", "m")]


def test_all_ties_give_a_p_of_one_and_a_wide_interval(lake):
    found = compare_runs(lake, "a", options=ComparisonOptions(resample_count=0)).models[0].overall.figures
    assert (found.p, found.p_wilcoxon) == (1.0, 1.0)
    assert found.diff_low == pytest.approx(-(1 - 0.025 ** (1 / 12)))


@law_over(
    ("rule", "is_failed"),
    [
        ("mean_diff < -0.01 and p < 0.1", True),
        ("mean_diff > 0", False),
        ("any criterion (mean_diff < 0 and p_adjusted < 0.2)", True),
        ("criterion.safe.mean_diff < 0", False),
        ("category.voice.mean_diff > -0.1", False),
        ("criterion.safe.effect_size < 0", True),  # all tied: unknown
        ("unpaired_count > 0 or unscored_count > 0 or ambiguous_count > 0", False),
        ("any category (held_otherwise_count = 0)", True),
    ],
)
def test_a_rule_fails_if_it_holds_or_can_not_be_evaluated(lake, rule, is_failed):
    gate = compare_runs(lake, "a", "b", ComparisonOptions(("m", "m"), GateRule(rule), 0)).gate
    assert (gate.is_failed, bool(gate.reasons)) == (is_failed, is_failed)


def test_a_model_on_one_side_only_is_named_and_leaves_a_gate_over_all_models_undecided(lake):
    asked = ComparisonOptions(gate=GateRule("mean_diff < -1"), resample_count=0)
    gates = [compare_runs(lake, "a", "more_b", each).gate for each in (asked, replace(asked, needs_all_models=True))]
    alone = ("n: only in run A", "o: only in run B")
    assert [(gate.outcome, gate.alone) for gate in gates] == [("passed", alone), ("undecided", ())]
    assert gates[1].reasons == (
        "n is only in run A, and all models decide",
        "o is only in run B, and all models decide",
    )


def test_naming_a_model_compares_only_that_model(lake):
    found = compare_runs(lake, "a", "more_b", ComparisonOptions(("m", None), GateRule("mean_diff < -1"), 0))
    assert (found.gate.is_failed, found.not_compared) == (False, ())


def test_per_case_criteria_are_not_part_of_any_criterion(lake):
    # the per-case one rose by 1, those of the rubric did not change
    rules = ("any criterion (mean_diff > 0)", "criterion.own.mean_diff > 0")
    gates = [
        compare_runs(lake, "own_a", "own_b", ComparisonOptions(gate=GateRule(rule), resample_count=0)).gate
        for rule in rules
    ]
    assert [gate.is_failed for gate in gates] == [False, True]


def test_an_unknown_figure_is_named(lake):
    gate = compare_runs(
        lake, "a", "b", ComparisonOptions(("m", "m"), GateRule("criterion.safe.effect_size < 0"), 0)
    ).gate
    assert gate.reasons == ("no value of criterion.safe.effect_size",)


@law_over(
    ("runs", "models", "rule", "words"),
    [
        (("a", "b"), (None, None), "meen_diff < 0", "found 'meen_diff', expected 'mean_diff'"),
        (("a", "b"), (None, None), "criterion.tune.p < 0", "found the criterion 'tune', expected 'tone'"),
        (("a", "b"), ("x", None), None, "--model-a: found 'x', expected a model of a: m, n"),
        (("own_a", None), (None, None), None, "found one run of the models m, expected a second run"),
        (("a", "nowhere"), (None, None), None, "found no 'nowhere'"),
        (("a", "a"), (None, None), None, "compare: found run a on both sides, expected two runs, or two models of it"),
        (("a", "a"), ("m", None), None, "compare: found run a on both sides"),
        (("a", None), ("m", "m"), None, "compare: found model m of run a on both sides"),
    ],
)
def test_an_impossible_comparison_is_refused(lake, runs, models, rule, words):
    with pytest.raises(InputError, match=words):
        compare_runs(lake, *runs, ComparisonOptions(models, GateRule(rule)))


@pytest.mark.nightly
def test_pairs_of_one_cluster_count_as_one_case(tmp_path):
    lake = make_lake(tmp_path)
    for run_id, shift in (("a", 0), ("b", 1)):
        rows = [
            {
                "case_id": f"c{case}",
                "cluster": f"d{case // 4}",
                "scores": {"right": (case + shift * (case // 4)) % 3 / 2},
            }
            for case in range(12)
        ]
        write_scores(lake, run_id, rubric("r", {"id": "right"}), rows)
    (pair,) = compare_runs(lake, "a", "b", ComparisonOptions(resample_count=0)).models
    assert pair.overall is not None
    assert (pair.overall.figures.n, pair.overall.figures.case_count) == (12, 3)


@pytest.mark.nightly
def test_runs_on_different_cases_are_compared_by_their_means_only_if_asked(
    lake: Lake, capsys: pytest.CaptureFixture[str]
):
    old = [{"case_id": f"old{case}", "scores": {"tone": 1.0, "facts": 0.5 * (case % 3)}} for case in range(60)]
    new = [{"case_id": f"new{case}", "scores": {"tone": 0.5, "facts": 0.5 * (case % 3)}} for case in range(60)]
    for name, rows in (("cases_a", old), ("cases_b", new)):
        write_scores(lake, name, PLAIN, [row | {"scores": {**row["scores"], "safe": 1.0}} for row in rows])
    gate = GateRule(None, "criterion.facts.diff_low > -0.2 and mean_diff < -0.3")
    assert compare_runs(lake, "cases_a", "cases_b", ComparisonOptions(gate=gate)).gate.is_failed  # type: ignore[union-attr]
    found = compare_runs(lake, "cases_a", "cases_b", ComparisonOptions(gate=gate, is_unpaired=True))
    (pair,) = found.models
    assert pair.overall is not None and not pair.overall.is_paired
    assert pair.overall.figures.mean_diff == pytest.approx(-0.375)  # tone is 3 of 4 and fell by 0.5
    assert found.gate is not None and not found.gate.is_failed
    assert (found.banner or "").startswith("unpaired")
    show_comparison(found)
    shown = capsys.readouterr().out
    assert "over different cases" in shown and "same scores" not in shown and "-0.375" in shown
    assert [row.scope_id for row in pair.criteria if row.is_regression] == ["tone"]  # as far as 60 cases a side show


# -------- missing scores
@pytest.mark.parametrize("missing", ["null", "skip"])
def test_a_missing_score_leaves_a_difference_open_between_its_bounds(lake, missing):
    # `two` weighs 2 of 3: c0 +2/3, and c1 anything from 1/3 - 1 to 1 - 1, scored by skip over `one` alone or not at all
    runs = f"gap_{missing}_a", f"gap_{missing}_b"
    compared = compare_runs(
        lake, *runs, ComparisonOptions(gate=GateRule("mean_diff < -0.1", "mean_diff > 0.1"), resample_count=0)
    )
    overall = compared.models[0].overall
    assert overall.figures.n == {"null": 1, "skip": 2}[missing]
    assert (overall.counts.missing_a_count, overall.counts.missing_b_count) == (0, 1)
    ends = overall.open_figures
    assert (ends.least_diff, ends.most_diff) == (pytest.approx(0, abs=1e-9), pytest.approx(1 / 3))
    part = {"null": "", "skip": "a part of "}[missing]
    words = f"1 of 2 pairs lacks {part}the overall score in B, so no certain value of mean_diff"
    assert (compared.gate.is_failed, compared.gate.is_undecided) == (True, True)
    assert compared.gate.sentence.split(", found ")[1].startswith(words)
    assert not compare_runs(
        lake, *runs, ComparisonOptions(gate=GateRule("mean_diff < -0.1"), resample_count=0)
    ).gate.is_failed


def test_a_criterion_that_does_not_apply_is_not_missing(lake):
    rows = compare_runs(lake, "excused_a", "excused_b", ComparisonOptions(resample_count=0)).models[0].rows
    assert [(row.counts.missing_b_count, row.open_figures) for row in rows] == [(0, None)] * 3


@pytest.mark.parametrize("missing", ["null", "skip"])
def test_refusals_of_bad_outputs_make_no_model_better_and_pass_no_rule(lake, missing, capsys):
    runs = f"refusal_{missing}_a", f"refusal_{missing}_b"
    found = compare_runs(lake, *runs, ComparisonOptions(gate=GateRule(require="not_worse_by(0.02)"), resample_count=0))
    overall = found.models[0].overall
    assert overall.figures.diff_low > 0 and overall.figures.p_family < 0.05  # what is scored alone would say so
    assert (overall.outcome.value, found.gate.is_undecided) == ("unknown", True)
    show_comparison(found)
    shown = " ".join(capsys.readouterr().out.split())
    assert "B is better" not in shown and "gate undecided" in shown
    assert "missing scores leave open what changed: overall +0." in shown
    assert "Scores are missing more often in B than in A" in shown and "whatever the missing scores are" in shown


# -------- unchanged outputs
@pytest.mark.parametrize(
    ("changed", "unchanged_count", "outcome"), [("all", 30, "passed"), ("text", 29, "failed"), ("score", 29, "failed")]
)
def test_a_rule_holds_by_definition_only_if_every_output_and_score_is_the_same(lake, changed, unchanged_count, outcome):
    gate = GateRule(require="not_worse_by(0.02)")
    compared = compare_runs(lake, f"{changed}_a", f"{changed}_b", ComparisonOptions(gate=gate, resample_count=0))
    overall = compared.models[0].overall
    assert overall.counts.unchanged_count == unchanged_count
    assert compared.gate.sentence.startswith(f"gate {outcome}: required not_worse_by(0.02), found diff_low = ")
    assert (overall.figures.diff_low == 0.0, "no output changed" in compared.gate.sentence) == ((changed == "all",) * 2)
