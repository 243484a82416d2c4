"""Calibrated means of published runs: whose word is the judge's, and what a summary says of them."""

import json
import shutil
from typing import Any

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.text.wording import EACH_CASE_ONCE
from gradebook.tasks.agreement.calibration import calibrate_run
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.ratings.rating_queue import Queue, choose_outputs, page_source
from gradebook.tasks.reporting.page import write_report
from tests.support.nightly import matrix
from tests.support.rated_lake import JudgedRun, publish_runs
from tests.support.scored_lake import make_lake, write_scores

TEXT = """
id: reply
version: {version}
criteria:
  - id: tone
    description: Is it kind?
    weight: 1
    method: {{type: judge{prefer}}}
    levels: [{{id: bad, score: {worst}}}, {{id: good, score: 1}}]
"""
PLAIN = parse_rubric(TEXT.format(version="1.0.0", prefer="", worst=0), "rubric.yaml")
PREFERRING = parse_rubric(TEXT.format(version="1.1.0", prefer=", prefer: human", worst=0), "rubric.yaml")
OTHER_SCORES = parse_rubric(TEXT.format(version="1.2.0", prefer="", worst=0.5), "rubric.yaml")
JUDGED = [1.0, 1.0, 1.0, 0.0] * 10  # of forty outputs
RATED = [1.0, 1.0, 0.0, 0.0] * 2  # of the first eight: the judge is too kind to one in four


RUNS = {
    "plain": (PLAIN, "one", 0),
    "preferring": (PREFERRING, "one", 8),
    "alone": (PREFERRING, "two", 8),
    "part": (PREFERRING, "three", 4),
    "other": (OTHER_SCORES, "three", 0),
}


def publish(lake, run_id, rubric, people_count):
    """A run of the forty outputs, where people score the first ones in the judge's place."""
    said = RATED[:people_count] + JUDGED[people_count:]
    rows = [{"case_id": f"c{k:02}", "output_id": f"o{k:02}", "scores": {"tone": score}} for k, score in enumerate(said)]
    write_scores(lake, run_id, rubric, rows)


def tell(connection, _version):
    """Whose verdicts they are, and what else a summary and a report show."""
    connection.execute("update outputs set output = 'Gladly.'")
    for run_id, (_, judge, people_count) in RUNS.items():
        settings = json.dumps({"judge": {"model": judge}})
        connection.execute(
            "update runs set judge = ?, settings = ?, finished_at = created_at where run_id = ?",
            [judge, settings, run_id],
        )
        method = f"if(output_id < 'o{people_count:02}', 'ratings', 'judge')"
        connection.execute(f"update verdicts set method = {method} where run_id = ?", [run_id])
        connection.execute(
            "insert into criterion_scores by name select ? as run_id, 'm' as model, 'tone' as criterion_id, 40 as n, "
            "40 as output_count, 1.0 as weight, 1.0 as coverage_rate, 0.75 as mean",
            [run_id],
        )


def tell_doubts(connection, _version):
    """Half of the verdicts are doubtful."""
    connection.execute("update verdicts set request_key = output_id")
    connection.executemany(
        "insert into judgments (request_key, distribution) values (?, ?)",
        [(f"o{k:02}", '{"good":0.6,"bad":0.4}' if k % 2 else '{"good":0.95,"bad":0.05}') for k in range(40)],
    )


def rate(connection, _version):
    rows = [(f"o{k:02}", score) for k, score in enumerate(RATED)]
    connection.executemany(
        "insert into ratings by name select ? as output_id, 'tone' as criterion_id, 'ann' as rater, ? as score", rows
    )


@pytest.fixture(scope="module")
def unrated(tmp_path_factory):
    """Runs of the same outputs, by the judge alone and with people's word on the first ones; nobody rated them yet."""
    found = make_lake(tmp_path_factory.mktemp("calibrated"))
    for run_id, (rubric, _, people_count) in RUNS.items():
        publish(found, run_id, rubric, people_count)
    commit(found, "tell", tell)
    return found


@pytest.fixture(scope="module")
def before(unrated):
    """The summary of a run that nobody rated yet."""
    return summarise(unrated, "plain")


@pytest.fixture(scope="module")
def lake(unrated, before):
    """The same, and a rating of each of the first eight outputs."""
    commit(unrated, "rate", rate)
    return unrated


def calibration(lake, run_id) -> Any:
    (row,) = calibrate_run(lake, run_id).rows
    return row


# -------- a rubric that prefers people
@pytest.mark.nightly
def test_what_the_judge_said_of_a_preferred_output_in_another_run_is_its_word(lake):
    plain, preferring = calibration(lake, "plain"), calibration(lake, "preferring")
    assert (preferring.n, preferring.unrated_count, preferring.naive.value) == (8, 32, 0.75)
    assert preferring == plain


@pytest.mark.nightly
def test_where_the_judge_said_nothing_of_preferred_outputs_the_run_says_so(lake):
    found = calibrate_run(lake, "alone")
    assert found.rows == ()
    assert found.note.startswith("nobody rated an output that the judge scored; people score 8 verdicts in the judge's")
    assert "evaluate the outputs with a rubric without `prefer` too" in found.note


def test_means_without_preferred_outputs_say_whom_they_are_without(lake):
    found = calibration(lake, "part")
    assert (found.n, found.unrated_count) == (4, 32)
    assert found.note.startswith(
        "these means are without 4 outputs that people score in the judge's place (prefer: hum"
    )


# -------- the summary of a run
def test_a_summary_has_the_corrected_mean_beside_the_plain_one(lake):
    (row,) = summarise(lake, "plain").as_json()["calibration"]
    corrected = calibration(lake, "plain").corrected
    assert row["naive_mean"] == 0.75
    assert (row["corrected_mean"], row["ci_low"], row["ci_high"]) == (
        corrected.value,
        corrected.ci_low,
        corrected.ci_high,
    )
    assert (row["criterion_id"], row["model"], row["n"], row["output_count"]) == ("tone", "m", 8, 40)


@pytest.mark.nightly
def test_a_report_shows_it(lake, tmp_path):
    page = write_report(lake, summarise(lake, "plain"), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h3>Means corrected by people&#39;s ratings</h3>" in page
    assert f'<td class="number">{calibration(lake, "plain").corrected.value:.3f}</td>' in page


def test_a_terminal_shows_it(lake, capsys):
    from gradebook.flows.display.summary import show_summary

    show_summary(summarise(lake, "part"), report=None)
    shown = capsys.readouterr().out
    assert "means corrected by people's ratings" in shown
    assert "note: tone of m: these means are without 4 outputs" in shown


def test_ratings_that_come_later_change_it_and_nothing_that_was_published(before, lake):
    after = summarise(lake, "plain")
    assert (before.calibration, len(after.calibration)) == ((), 1)
    assert (before.scores, before.criteria) == (after.scores, after.criteria)


def test_a_fault_in_it_is_told_and_fails_no_run(lake, tmp_path):
    shutil.copytree(lake.root, tmp_path / "lake")
    copied = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    damage = "update runs set settings = '{' where run_id = 'plain'"
    commit(copied, "damage", lambda connection, _version: connection.execute(damage))
    found = summarise(copied, "preferring")
    assert found.calibration == ()
    assert "Malformed JSON" in found.calibration_fault


# -------- outputs to rate next
def test_where_everything_is_rated_no_output_is_suggested(lake):
    assert len(calibrate_run(lake, "plain", next_count=40).next_outputs) == 32

    def rate_all(connection, _version):
        connection.execute(
            "insert into ratings by name select distinct output_id, 'tone' as criterion_id, 'ann' as rater, 1.0 as "
            "score from verdicts where run_id = 'plain' and output_id not in (select output_id from ratings)"
        )

    commit(lake, "rate all", rate_all)
    assert calibrate_run(lake, "plain", next_count=20).next_outputs == ()


# -------- how the rated outputs were chosen
def rated_lake(tmp_path, rows, decisions=()):
    """The forty outputs as the run `r`, and ratings of them: (place, score, rater, selection)."""
    found = make_lake(tmp_path)
    ratings = [
        {
            "output_id": f"o{place:02}",
            "criterion_id": "tone",
            "rater": rater,
            "score": score,
            "selection": selection,
            "rated_at": f"2026-11-{day:02}",
            "source": "rating page, run r",
        }
        for day, (place, score, rater, selection) in enumerate(rows, 1)
    ]
    decided = [{"output_id": f"o{place:02}", "criterion_id": "tone", "score": score} for place, score in decisions]
    publish_runs(found, {"r": JudgedRun(JUDGED)}, {"ratings": ratings, "adjudications": decided})
    return found


FIRST_EIGHT = [(place, score, "ann", "random") for place, score in enumerate(RATED)]


@pytest.mark.nightly
def test_ratings_of_outputs_that_a_rule_chose_are_left_out(tmp_path):
    chosen = [(20, 0.0, "ann", "disputed"), (21, 0.0, "bob", "disputed"), (1, 0.0, "ann", "gates")]
    found, plain = (
        calibration(rated_lake(tmp_path / name, rows), "r")
        for name, rows in (("chosen", FIRST_EIGHT + chosen), ("plain", FIRST_EIGHT))
    )
    assert (found.n, found.unrated_count) == (8, 32)
    # ann's later rating of o01 would lower the mean: the random sample has her earlier one
    assert found.corrected == plain.corrected
    assert (
        found.note
        == "left out: 3 ratings of disputed and gate-failing outputs, which a rule chose; 8 rated outputs of a sample"
    )


@pytest.mark.nightly
def test_agreement_says_how_many_ratings_a_queue_chose(tmp_path):
    both = [(place, score, rater, "random") for place, score, _, _ in FIRST_EIGHT for rater in ("ann", "bob")]
    chosen = [(20, 0.0, "ann", "disputed"), (20, 0.0, "bob", "disputed"), (21, 0.0, "bob", "gates")]
    found, plain = (
        measure_run(rated_lake(tmp_path / name, rows), "r").note
        for name, rows in (("chosen", both + chosen), ("plain", both))
    )
    assert plain is None
    assert found.startswith("3 ratings of outputs that a queue chose (disputed, gates) are counted too")


@pytest.mark.nightly
def test_where_a_rule_chose_every_rated_output_there_is_no_corrected_mean(tmp_path):
    found = rated_lake(tmp_path, [(place, 0.0, "ann", "uncertain") for place in range(4)])
    row = calibration(found, "r")
    assert (row.n, row.unrated_count, row.naive.value) == (0, 40, 0.75)
    assert (row.corrected.value, row.rated.value, row.rogan_gladen.value) == (None, None, None)
    assert row.note == "left out: 4 ratings of uncertain outputs, which a rule chose; 0 rated outputs of a sample"
    assert len(calibrate_run(found, "r", next_count=40).next_outputs) == 40
    summarise(found, "r").as_json()


def test_means_beside_a_runs_means_that_count_each_case_once_say_so(tmp_path):
    found = rated_lake(tmp_path, FIRST_EIGHT)
    plain = calibration(found, "r").note
    note = f"cases have 1 to 2 outputs of a model: {EACH_CASE_ONCE} (`weights: cases` of the rubric)"
    commit(found, "note", lambda connection, _version: connection.execute("update runs set notes = [?]", [note]))
    told = "cases have unlike numbers of outputs: the run's means count each case once, these figures each output"
    assert (plain, calibration(found, "r").note) == (None, told)
    assert told in measure_run(found, "r").note


@pytest.mark.parametrize("golden_count", [0, 3])
def test_ratings_drawn_by_the_judges_doubt_count_by_their_probability_up_to_the_first_output_without(
    tmp_path, golden_count
):
    found = rated_lake(tmp_path, [])
    commit(found, "doubts", tell_doubts)
    with connect(found, read_only=True) as connection:
        queue = choose_outputs(connection, "r", Queue.uncertain, 40)
    source = page_source("r")
    answered = [queued.output_id for place, queued in enumerate(queue) if place != 34][:36]

    def rate_drawn(connection, _version):
        connection.executemany(
            "insert into ratings by name select ? as output_id, 'tone' as criterion_id, 'ann' as rater, ? as score, "
            "? as selection, ? as inclusion_rate, ? as source",
            [
                (
                    name,
                    RATED[int(name[1:]) % 4],
                    *(("gold", None) if place < golden_count else ("uncertain", 0.9)),
                    source,
                )
                for place, name in enumerate(answered)
            ],
        )

    commit(found, "rate", rate_drawn)
    row = calibration(found, "r")
    # 34 outputs come before the one that nobody rated, and people pass half of all
    assert (row.n, row.naive.value, row.is_random, row.chosen_count) == (34, 0.75, True, 36)
    assert row.corrected.ci_low < 0.5 < row.corrected.ci_high < 0.75
    assert row.note.startswith(
        "34 rated outputs, 34 of them drawn by the judge's doubt: each rating counts by the inverse"
    )
    assert "left out" not in row.note


@pytest.mark.parametrize("selection", ["random", *matrix([None])])
def test_a_sample_far_off_by_the_judge_is_not_random_whoever_drew_it(tmp_path, selection):
    lowest = [place for place in range(40) if JUDGED[place] == 0.0] + [0]
    rows = [(place, 0.0, "ann", selection) for place in lowest]
    assert not calibration(rated_lake(tmp_path, rows), "r").is_random


def test_outputs_of_the_sample_that_people_give_no_score_leave_no_corrected_mean(tmp_path):
    # ann says of o08 and o09 that the criterion does not apply; bob scores o09
    marks = [(8, None, "ann", "random"), (9, None, "ann", "random"), (9, 1.0, "bob", "random")]
    row = calibration(rated_lake(tmp_path, FIRST_EIGHT + marks), "r")
    assert (row.n, row.corrected.value, row.corrected.ci_low, row.is_random) == (9, None, None, False)
    assert row.note.startswith("people gave 1 of 10 outputs of the random sample no score")
    assert row.note.endswith("are not a random sample: no corrected mean")


@pytest.mark.nightly
def test_a_decision_counts_instead_of_the_ratings_in_dispute(tmp_path):
    disputed = [(0, 0.0, "bob", "random"), (4, 0.0, "bob", "random")]
    found = calibration(rated_lake(tmp_path, FIRST_EIGHT + disputed, decisions=[(0, 1.0), (4, None), (30, 0.0)]), "r")
    # o04 is decided not to apply, o30 is in no sample: 1, 1, 0, 0 and 1, 0, 0
    assert (found.n, found.rated.value) == (7, pytest.approx(3 / 7))


@pytest.mark.nightly
def test_the_judge_agrees_with_what_was_settled_and_raters_with_each_other_by_opinion(tmp_path):
    both = [(place, 1.0, rater, "random") for place in range(4) for rater in ("ann", "bob")]
    split = [(4, 1.0, "ann", "random"), (4, 0.0, "bob", "random")]
    found = measure_run(rated_lake(tmp_path, both + split, decisions=[(4, 1.0), (3, 0.0)]), "r").parts
    shown = {(part.kind, part.rater): part.measure("percent_agreement").value for part in found}
    # the judge says 1, 1, 1, 0, 1; settled are 0 on o03 and 1 on o04, where ann and bob differ
    assert shown[("judge_raters", None)] == 1.0
    assert shown[("judge_raters", "bob")] == pytest.approx(3 / 5)
    assert shown[("raters", None)] == pytest.approx(4 / 5)
