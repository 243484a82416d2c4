"""What raters and judges said, put side by side: whose word counts, and who is held against whom."""

from math import isnan

import duckdb
import numpy as np
import pytest

from gradebook.tasks.agreement.mart import (
    AGREEMENT_SCHEMA,
    MOST_ONE_BY_ONE,
    add_statements,
    agreement_table,
    groups_of,
    is_crowded,
    measure_group,
    read_score_matrices,
)

RELATIONS = """
create table agreed_ratings (
    output_id varchar, criterion_id varchar, rater varchar, level_id varchar, score double,
    rated_at timestamptz, is_from_file boolean, line bigint, source varchar, selection varchar,
    inclusion_rate double, gold_score double
);
create table agreed_verdicts (
    output_id varchar, criterion_id varchar, method varchar, status varchar, level_id varchar, score double,
    reason varchar
);
create table agreed_opinions (
    output_id varchar, criterion_id varchar, judge varchar, replicate int, is_swapped boolean, status varchar,
    level_id varchar, score double
);
create table agreed_decisions (
    output_id varchar, criterion_id varchar, adjudicator varchar, level_id varchar, score double,
    decided_at timestamptz, line bigint
);
create table asked_questions as from (values ('tone', null::varchar), ('own', 'o')) as t(criterion_id, output_id);
create table agreed_outputs (output_id varchar, shared varchar);
create table agreed_levels as from (values ('tone', 'bad', 0.0), ('tone', 'good', 1.0)) as t(
    criterion_id, level_id, score
);
"""


@pytest.fixture
def lake():
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(RELATIONS)
        yield connection


def rate(lake, output, rater, level, *, score=0.5, at=None, from_file=False, line=0, criterion="tone"):
    row = (output, criterion, rater, level, score, at, from_file, line)
    lake.execute("insert into agreed_ratings values (?, ?, ?, ?, ?, ?, ?, ?, null, null, null, null)", row)


def judge(lake, output, level, score, method="judge"):
    status = "unscored" if score is None else "scored"
    lake.execute(
        "insert into agreed_verdicts values (?, 'tone', ?, ?, ?, ?, null)", (output, method, status, level, score)
    )


def say(lake, output, name, level, replicate=0, *, swapped=False):
    row = (output, name, replicate, swapped, level, float(level == "good"))
    lake.execute("insert into agreed_opinions values (?, 'tone', ?, ?, ?, 'scored', ?, ?)", row)


def voices(lake):
    assert add_statements(lake)
    (found,) = read_score_matrices(lake)
    return found


def groups(lake):
    return [(each.kind, each.judge, each.rater) for each in groups_of(voices(lake))]


def scores_of(lake, side, who):
    found = voices(lake)
    return found.scores[found.names.index((side, who))].tolist()


# -------- whose word counts
def test_a_level_is_worth_what_the_criterion_gives_it_now(lake):
    for rater in "ab":
        rate(lake, "o", rater, "good", score=0.2)
        rate(lake, "p", rater, None, score=0.3)
    assert scores_of(lake, "rater", "a") == [1.0, 0.3]


def test_the_later_rating_of_a_rater_counts(lake):
    for output in "op":
        rate(lake, output, "a", "bad", at="2026-01-02")
        rate(lake, output, "a", "good", at="2026-01-01", line=9)
        rate(lake, output, "b", "bad")
    assert scores_of(lake, "rater", "a") == [0.0, 0.0]


def test_a_rating_given_with_the_run_counts_before_those_of_the_lake(lake):
    for output in "op":
        rate(lake, output, "a", "good", from_file=True)
        rate(lake, output, "a", "bad", at="2026-01-02")
        rate(lake, output, "b", "bad")
    assert scores_of(lake, "rater", "a") == [1.0, 1.0]


def test_a_level_that_the_criterion_has_no_more_is_no_rating(lake):
    for output in "op":
        for rater in "ab":
            rate(lake, output, rater, "good")
        rate(lake, output, "c", "gone")
    assert [who for _, who in voices(lake).names] == ["a", "b"]


@pytest.mark.parametrize(("criterion", "output", "counted"), [("gone", "o", 0), ("own", "o", 1), ("own", "p", 0)])
def test_a_rating_counts_of_a_criterion_that_the_run_holds_the_output_to(lake, criterion, output, counted):
    rate(lake, output, "a", None, criterion=criterion)
    assert add_statements(lake) == bool(counted)
    assert lake.execute("select count(*) from latest_ratings").fetchall() == [(counted,)]


def test_an_unscored_verdict_is_missing_and_no_zero(lake):
    for output, score in (("o", None), ("p", 1.0), ("q", 0.0)):
        rate(lake, output, "a", "good")
        judge(lake, output, None, score)
    said = scores_of(lake, "judge", "")
    assert sorted(score for score in said if not isnan(score)) == [0.0, 1.0]
    assert len(said) == 3


def test_a_verdict_made_of_ratings_is_no_judge(lake):
    for output in "op":
        for rater in "ab":
            rate(lake, output, rater, "good")
        judge(lake, output, "good", 1.0, method="ratings")
    assert {kind for kind, _, _ in groups(lake)} == {"raters"}


def test_a_judges_probabilities_give_the_score_and_its_level_the_level(lake):
    for output in "op":
        rate(lake, output, "a", "good")
        judge(lake, output, "good", 0.8)
    found = voices(lake)
    assert (found.levels[0].tolist(), found.scores[0].tolist()) == ([1.0, 1.0], [0.8, 0.8])


def test_a_judges_first_opinion_counts_and_a_swapped_one_never(lake):
    for output in "op":
        say(lake, output, "x", "bad", replicate=1)
        say(lake, output, "x", "good")
        say(lake, output, "x", "bad", swapped=True)
        say(lake, output, "y", "bad")
    assert (scores_of(lake, "member", "x"), scores_of(lake, "member", "y")) == ([1.0, 1.0], [0.0, 0.0])


def test_an_unscored_verdict_is_a_disagreement_in_a_figure_of_its_own(lake):
    # the judge agrees with a on o and p, and left q and r unscored: 2 of 2, and 2 of 4
    for output, score in (("o", 1.0), ("p", 1.0), ("q", None), ("r", None)):
        rate(lake, output, "a", "good")
        judge(lake, output, "good", score)
    assert add_statements(lake)
    rows = {row["statistic"]: row for row in agreement_table(lake).to_pylist() if row["rater"] is None}
    plain, counted = rows["percent_agreement"], rows["percent_agreement_with_gaps"]
    assert ((plain["value"], plain["n"]), (counted["value"], counted["n"])) == ((1.0, 2), (0.5, 4))


def test_outputs_of_one_case_are_one(lake):
    for place in range(20):
        rate(lake, f"o{place:02}", "a", "good" if place % 4 else "bad")
        rate(lake, f"o{place:02}", "b", "good" if place % 3 else "bad")
        lake.execute("insert into agreed_outputs values (?, ?)", [f"o{place:02}", f"case {place // 4}"])
    assert voices(lake).cases.tolist() == np.repeat(np.arange(5), 4).tolist()


# -------- who is held against whom
def test_all_come_first_then_each_rater_then_each_judge(lake):
    for output in "op":
        for rater in "ab":
            rate(lake, output, rater, "good")
        judge(lake, output, "good", 1.0)
        for name in "xy":
            say(lake, output, name, "good")
    assert groups(lake) == [
        *(("raters", None, rater) for rater in (None, "a", "b")),
        *(("judge_raters", None, rater) for rater in (None, "a", "b")),
        *(("judge_raters", name, None) for name in "xy"),
        *(("judges", name, None) for name in (None, "x", "y")),
    ]


def test_one_rater_against_a_judge_is_named_too(lake):
    for output in "op":
        rate(lake, output, "a", "good")
        judge(lake, output, "good", 1.0)
    assert groups(lake) == [("judge_raters", None, None), ("judge_raters", None, "a")]


def test_a_crowd_of_raters_is_measured_together_alone(lake):
    for output in "op":
        judge(lake, output, "good", 1.0)
        for place in range(MOST_ONE_BY_ONE + 1):
            rate(lake, output, f"r{place}", "good")
    assert groups(lake) == [("raters", None, None), ("judge_raters", None, None)]
    assert is_crowded(voices(lake))


def test_one_against_the_others_takes_only_what_both_said(lake):
    # a rated o and p, c only q, and nobody else q: neither c nor q has a place
    for output, rater in ("oa", "ob", "pa", "pb", "qc"):
        rate(lake, output, rater, "good")
    found = voices(lake)
    (of_a,) = [each for each in groups_of(found) if each.rater == "a"]
    levels, scores, _, _ = found.arguments(of_a)
    assert (levels.shape, scores.shape) == ((2, 2), (2, 2))
    assert measure_group(found, of_a).pair_count == 2


def test_replicates_of_one_judge_are_no_judges(lake):
    for output in "op":
        rate(lake, output, "a", "good")
        judge(lake, output, "good", 1.0)
        for replicate in range(2):
            say(lake, output, "x", "good", replicate)
    assert {kind for kind, _, _ in groups(lake)} == {"judge_raters"}


def test_nobody_and_one_judge_are_nothing_to_compare(lake):
    judge(lake, "o", "good", 1.0)
    say(lake, "o", "x", "good")
    assert not add_statements(lake)


def test_one_output_is_too_few(lake):
    rate(lake, "o", "a", "good")
    rate(lake, "o", "b", "good")
    assert add_statements(lake)
    assert agreement_table(lake).equals(AGREEMENT_SCHEMA.empty_table())


def test_a_row_is_a_statistic_with_its_counts(lake):
    # a: good, good, bad; b: good, bad, bad; a is the milder one by 1/3
    for output, of_a, of_b in (("o", "good", "good"), ("p", "good", "bad"), ("q", "bad", "bad")):
        rate(lake, output, "a", of_a)
        rate(lake, output, "b", of_b)
    assert add_statements(lake)
    rows = agreement_table(lake).to_pylist()
    (row,) = [row for row in rows if (row["rater"], row["statistic"]) == ("a", "bias")]
    assert (row["kind"], row["n"], row["pair_count"], row["value"]) == ("raters", 3, 3, pytest.approx(1 / 3))
