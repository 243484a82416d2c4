"""Section "Trust": sign and numbers of each finding, worst first."""

import pytest

from gradebook.tasks.reporting.sections.trust import Sign, read_trust
from tests.support.rated_lake import JUDGED, RATED, JudgedRun, publish_runs, ratings_of, source_of
from tests.support.scored_lake import make_lake

# In order of publication. `plain` has ratings and replies of other models; `empty` has no scores; in `scattered` judge
# and people gave thirty different scores each.
SCATTERED = [place / 30 for place in range(30)]
RUNS = {
    "gappy": JudgedRun([1.0, 0.0, None, None], prefix="g"),
    "plain": JudgedRun(JUDGED, prefix="p"),
    "empty": JudgedRun([None, None], judge="other", prefix="e"),
    "unjudged": JudgedRun(JUDGED[:4], judge=None, prefix="u"),
    "scattered": JudgedRun(SCATTERED, prefix="s"),
}


def expectation_row(run_id, expectation, severity="warning", *, is_met):
    row = {"run_id": run_id, "stage": "ingest", "subject": "shard 0", "expectation": expectation}
    return row | {"is_met": is_met, "severity": severity, "unexpected_count": None if is_met else 3}


def reply(key, status="scored", run_id="gappy", model="one-2026"):
    return {"run_id": run_id, "request_key": key, "judge": "one", "status": status, "model_returned": model}


def flips(run_id, rate):
    head = {"run_id": run_id, "model": "m", "criterion_id": "tone", "n": 40, "opinion_count": 80}
    return head | {"flip_rate": rate, "swap_flip_rate": rate}


TABLES = {
    "stage_costs": [
        {"run_id": run_id, "stage": "ingest", "row_count": count}
        for run_id, count in {"gappy": 18, "plain": 40, "empty": 1}.items()
    ],
    "quarantine": [
        {"run_id": "gappy", "source": "a.jsonl", "reason": "no case_id", "line": line} for line in range(1, 13)
    ],
    "quality_results": [
        expectation_row("gappy", "not empty.", is_met=False),
        expectation_row("gappy", "unique", is_met=True),
        expectation_row("plain", "unique", is_met=True),
        expectation_row("empty", "not empty.", "error", is_met=False),
    ],
    "judgments": [
        *(reply("g00", run_id="before"), reply("g02", "parse_error"), reply("g02", "refused", "before"), reply("x")),
        *(reply("p00", run_id="plain"), reply("p01", run_id="plain", model="two")),
    ],
    "judge_noise": [flips("gappy", 0.02), flips("plain", 0.1), flips("empty", 0.4)],
    "ratings": [
        *ratings_of(RATED, "ann", "p"),
        *ratings_of([1 - score for score in SCATTERED], "ann", "s"),
    ],
}


def set_reasons(connection):
    connection.execute("update verdicts set reason = 'parse_error: ' || output_id where score is null")
    connection.execute("update verdicts set is_replayed = true where output_id = 'p00'")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    found = make_lake(tmp_path_factory.mktemp("trust"))
    publish_runs(found, RUNS, TABLES, set_reasons)
    return found


@pytest.fixture(scope="module")
def found(lake):
    """Findings of each run, in order."""
    every = {}
    for run_id in RUNS:
        with source_of(lake, run_id) as source:
            every[run_id] = read_trust(source)
    return every


def finding(found, run_id, topic):
    return next(each for each in found[run_id].findings if each.topic == topic)


# -------- input rows
def test_each_row_of_the_input_is_accounted_for(found):
    # 18 rows: two outputs with a score, two without, twelve refused, so two were repeated
    rows = finding(found, "gappy", "Rows")
    assert (rows.sign, rows.words) == (
        Sign.FINE,
        (
            "18 rows read: 2 outputs with a score, 2 without one, 12 refused, 2 repeated and stored once "
            "(2 + 2 + 12 + 2 = 18)."
        ),
    )


def test_more_outputs_than_rows_are_bad(found):
    rows = finding(found, "empty", "Rows")
    assert (rows.sign, rows.words.endswith("these are 1 more than were read.")) == (Sign.BAD, True)


def test_an_unrecorded_row_count_is_reported(found):
    assert "the number of rows read was not recorded" in finding(found, "unjudged", "Rows").words


def test_refused_rows_are_counted_by_reason_and_ten_are_shown_with_their_lines(found):
    refused = finding(found, "gappy", "Quarantine")
    assert (refused.sign, refused.words) == (Sign.LOOK, "12 rows refused: no case_id (12). Scores do not include them.")
    assert refused.table.caption == "Rows refused, the first 10 of 12"
    assert refused.table.rows[-1] == ("a.jsonl", "no case_id", "10")


@pytest.mark.parametrize(("run_id", "sign"), [("gappy", Sign.LOOK), ("empty", Sign.BAD)])
def test_an_expectation_that_is_not_met_is_named(found, run_id, sign):
    quality = finding(found, run_id, "Data quality")
    assert quality.sign == sign
    assert quality.words.endswith("checked at 1 stage; 1 not met: shard 0: not empty.")
    assert quality.table.rows[0][:3] + quality.table.rows[0][5:] == ("ingest", "shard 0", "not empty.", "3")


def test_met_expectations_are_fine_and_unchecked_ones_are_worth_a_look(found):
    assert finding(found, "plain", "Data quality").sign == Sign.FINE
    assert finding(found, "unjudged", "Data quality").sign == Sign.LOOK


# -------- coverage
def test_reasons_of_missing_scores_are_counted(found):
    coverage = finding(found, "gappy", "Verdicts")
    assert (coverage.sign, coverage.words) == (
        Sign.LOOK,
        "2 of 4 verdicts have a score (50.0%). The others: parse_error (2).",
    )
    assert coverage.table.rows == (("tone", "m", "parse_error (2)", "2", "4", "50.0%"),)


def test_a_criterion_without_any_score_is_bad(found):
    coverage = finding(found, "empty", "Verdicts")
    assert (coverage.sign, coverage.words.endswith("A model has no score on tone.")) == (Sign.BAD, True)


def test_full_coverage_is_fine(found):
    assert finding(found, "plain", "Verdicts").words == "All 40 verdicts have a score."


# -------- replies
def test_only_useless_replies_paid_for_by_the_run_count(found):
    # g00 was paid for by an earlier run and counts; the refusal of g02 is of another run, and no verdict uses x
    replies = finding(found, "gappy", "Replies")
    assert (replies.sign, replies.words) == (
        Sign.BAD,
        (
            "The verdicts are based on 2 replies of 1 judge; 1 of them (50.0%) gave no level: 1 unreadable "
            "(parse_error)."
        ),
    )


@pytest.mark.parametrize(("run_id", "sign"), [("gappy", Sign.FINE), ("plain", Sign.LOOK)])
def test_a_dated_name_is_the_model_asked_and_another_name_is_worth_a_look(found, run_id, sign):
    assert finding(found, run_id, "Models asked").sign == sign


def test_verdicts_from_earlier_replies_are_counted(found):
    assert finding(found, "plain", "Replayed").words.startswith("1 of 40 judged verdicts (2.5%) use earlier replies")


# -------- the judge
def test_without_ratings_the_finding_names_the_command(found):
    people = finding(found, "gappy", "People")
    assert (people.sign, "gradebook people ratings import" in people.words) == (Sign.LOOK, True)


def test_with_ratings_the_judge_is_compared_with_people(found):
    words = finding(found, "plain", "People").words
    assert words.startswith("Judge and people gave the same level in 75.0% of 8 pairs on tone.")
    words = finding(found, "plain", "Calibration").words
    assert words.startswith("On tone the judge alone gives m 0.750; with people's ratings of 8 of 40 outputs it is")


def test_agreement_of_scores_without_levels_is_unknown_but_not_their_ranks(found):
    people = finding(found, "scattered", "People")
    assert "no better than chance on tone, as far as the ratings show (rank correlation -1.00" in people.words
    assert (people.sign, people.words.partition(". ")[0].rstrip(".")) == (
        Sign.BAD,
        "Agreement of judge and people is unknown: their scores on 1 criterion are not levels",
    )


@pytest.mark.parametrize(
    ("run_id", "rate", "sign"),
    [("gappy", "2.0%", Sign.FINE), ("plain", "10.0%", Sign.LOOK), ("empty", "40.0%", Sign.BAD)],
)
def test_the_sign_of_flips_depends_on_their_rate(found, run_id, rate, sign):
    for topic in ("Consistency", "Order of levels"):
        flipped = finding(found, run_id, topic)
        assert (flipped.sign, f"at most {rate}" in flipped.words) == (sign, True)


def test_a_run_without_a_judge_has_no_findings_about_judges(found):
    topics = {each.topic for each in found["unjudged"].findings}
    assert not {"People", "Consistency", "Replies"} & topics


# -------- versions
def test_an_earlier_run_with_another_judge_is_reported(found):
    earlier = finding(found, "empty", "Earlier runs")
    assert earlier.sign == Sign.LOOK
    assert earlier.words.startswith("2 earlier runs of this rubric version. The last one, plain, had another judge.")
    assert finding(found, "gappy", "Earlier runs").words == "No earlier run used this rubric version."


def test_an_earlier_run_without_differences_is_fine(found):
    earlier = finding(found, "plain", "Earlier runs")
    assert (earlier.sign, earlier.words.endswith("had the same judge, outputs and code.")) == (Sign.FINE, True)


def test_the_worst_findings_come_first_and_are_counted(found):
    signs = [list(Sign).index(each.sign) for each in found["empty"].findings]
    assert signs == sorted(signs)
    counts = f"{signs.count(0)} bad, {signs.count(1)} to look at, {signs.count(2)} fine."
    assert found["empty"].counted == counts
