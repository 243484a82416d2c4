"""Section "Judge and people": its numbers are those of agreement, calibration and judge_noise."""

import numpy as np
import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.tasks.agreement.calibration import calibrate_run
from gradebook.tasks.agreement.mart import add_statements_of_run, agreement_table
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.page import write_report
from gradebook.tasks.reporting.sections.agreement import read_agreement
from gradebook.tasks.reporting.sections.people import read_people
from gradebook.tasks.reporting.sections.trust import read_trust
from tests.support.rated_lake import JUDGED, RATED, TEXT, JudgedRun, add_rows, publish_runs, ratings_of, source_of
from tests.support.replicated_lake import make_rubric, write_replicates
from tests.support.scored_lake import make_lake

HOSTILE = "<script>alert(1)</script>"
ODD = """
id: odd
version: 1.0.0
criteria:
  - id: tone
    description: Is it kind?
    weight: 1
    method: {type: judge}
    levels:
      - {id: bad, score: 0, label: "<script>alert(1)</script>"}
      - {id: good, score: 1, label: "<script>alert(1)</script>"}
"""
PENALTY = """
id: points
version: 1.0.0
criteria:
  - id: depth
    description: Is it deep?
    weight: 3
    method: {type: judge}
    levels: [{id: bad, score: 0}, {id: good, score: 1}]
  - id: tone
    description: Is it rude?
    weight: -1
    method: {type: judge}
    levels: [{id: calm, score: 0}, {id: harsh, score: 1}]
"""
WHOLE = f"""{TEXT.replace("id: reply", "id: whole")}
overall: {{levels: [{{id: poor, score: 0}}, {{id: fair, score: 0.5}}, {{id: fine, score: 1}}]}}
"""
# A quarter of the variance is judge noise: 0.01 / (0.03 + 0.01).
NOISE = {"run_id": "again", "model": "m", "criterion_id": "tone", "n": 40, "opinion_count": 80} | {
    "flip_rate": 0.125,
    "agreement_rate": 0.5,
    "effective_votes": 1.5,
    "output_variance": 0.03,
    "judge_variance": 0.01,
}
# Six of eight pairs have the same level.
AGREED = {
    "run_id": "as_published",
    "criterion_id": "tone",
    "kind": "judge_raters",
    "statistic": "percent_agreement",
} | {
    "n": 8,
    "pair_count": 8,
    "value": 0.75,
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Lake of six runs: `again` with opinions, `odd` with hostile level names, `as_published` with unchanged ratings.

    `bare` has no ratings. The judge of `penalty` finds every output rude, people four of ten. Of `lowest`
    people rated what the judge gave the lowest level alone.
    """
    found = make_lake(tmp_path_factory.mktemp("people"))
    runs = {
        "again": JudgedRun(JUDGED),
        "odd": JudgedRun(JUDGED, rubric=parse_rubric(ODD, "rubric.yaml")),
        "as_published": JudgedRun(JUDGED, prefix="t"),
        "bare": JudgedRun(JUDGED[:4], prefix="b"),
        "lowest": JudgedRun(JUDGED, prefix="l"),
        "whole": JudgedRun(JUDGED[:8], prefix="w", rubric=parse_rubric(WHOLE, "rubric.yaml")),
        "penalty": JudgedRun([1.0] * 10, prefix="p", rubric=parse_rubric(PENALTY, "rubric.yaml")),
    }
    ratings = [*ratings_of(RATED, "ann"), *ratings_of([1.0] * 4, "bob"), *ratings_of(RATED, "ann", "t")]
    ratings += ratings_of([1.0] * 4 + [0.0] * 6, "ann", "p")
    ratings += ratings_of([float(score == 0) / 2 for score in JUDGED], "ann", "l")[3::4]
    ratings += [row | {"criterion_id": "overall"} for row in ratings_of([1.0, 1.0, 0.5, 0.0] * 2, "ann", "w")]
    publish_runs(found, runs, {"ratings": ratings, "judge_noise": [NOISE], "agreement": [AGREED]})
    return found


@pytest.fixture(scope="module")
def contents(lake):
    """Section of a run with ratings by two people."""
    with source_of(lake, "again") as source:
        return read_people(source)


def figure(contents, name):
    figures = (*contents.agreement_figures, contents.means_figure, *contents.noise_figures)
    return next(each for each in figures if each.id == name)


# -------- judge and people
def test_the_confusion_matrix_counts_each_pair_of_levels(contents):
    # ann rated eight: the judge gave good to two that she rated bad; bob rated four good, of which the judge three
    found = figure(contents, "people-levels-1")
    counts = {row[:2]: row[2] for row in found.table.rows}
    assert counts == {
        ("Unkind", "Unkind"): "2",
        ("Unkind", "Kind"): "1",
        ("Kind", "Unkind"): "2",
        ("Kind", "Kind"): "7",
    }
    assert found.sentence.startswith("The same level in 9 of 12 pairs (75.0%); the judge gave the better level in 2, ")
    assert found.sentence.endswith("Most frequent difference: judge Kind, people Unkind (2 times).")


def test_the_judges_bias_is_the_difference_of_the_means(contents):
    # over the 12 pairs the judge's mean is 9/12, that of people 8/12
    assert "+0.083 (" in figure(contents, "people-bias").sentence


def test_overall_ratings_stand_beside_the_weighted_scores_of_the_same_outputs(lake, contents):
    with source_of(lake, "whole") as source:
        (table,) = [each for each in read_people(source).tables if each.caption.startswith("Overall ratings")]
    # scores 1, 1, 1, 0 twice: 0.75; ratings 1, 1, 0.5, 0 twice: 0.625
    assert table.rows[0][1:5] == ("8", "0.625", "0.750", "+0.125")
    assert table.rows[0][6] == "0.870"  # 0.15625 / sqrt(0.171875 * 0.1875)
    assert not [each for each in contents.tables if each.caption.startswith("Overall ratings")]


def test_agreement_among_people_is_compared_with_that_of_the_judge(contents):
    # ann and bob agree on two of four outputs
    found = figure(contents, "people-same-level")
    assert "75.0% of 12 pairs; people with each other in 50.0%" in found.sentence
    assert "no better than chance on tone, as far as the ratings show (kappa 0.400, -1.000 to 0.83" in found.sentence
    assert "judge with people: 75.0%" in str(found.svg)


def test_the_table_equals_the_mart(lake, contents):
    with connect(lake, read_only=True) as connection:
        add_statements_of_run(connection, "again")
        rows = agreement_table(connection).to_pylist()
    rates = [row["value"] for row in rows if row["statistic"] == "percent_agreement" and row["rater"] is None]
    shown = figure(contents, "people-bias").table
    assert [row[4].partition(" ")[0] for row in shown.rows] == [f"{100 * rate:.1f}%" for rate in rates]


def test_ratings_newer_than_the_published_table_are_reported(lake, contents):
    assert contents.sentences[0] == "2 people gave 12 ratings of 8 of the 40 outputs, on 1 criterion."
    assert contents.sentences[1].startswith("Ratings changed since the run was published")
    with source_of(lake, "again") as source:
        assert not read_agreement(source).is_as_published


@pytest.mark.nightly
def test_unchanged_ratings_are_not_reported(lake):
    with source_of(lake, "as_published") as source:
        assert read_agreement(source).is_as_published
        assert len(read_people(source).sentences) == 1


@pytest.mark.nightly
def test_a_mean_that_its_note_calls_wrong_is_no_finding(lake):
    (row,) = calibrate_run(lake, "lowest").rows
    assert (row.corrected.value, row.rogan_gladen.value, row.rated.ci_low) == (None, None, None)
    assert row.note.endswith("6.3 standard errors apart: no corrected mean")
    with source_of(lake, "lowest") as source:
        said = [each.words for each in read_trust(source).findings if each.topic == "Calibration"]
    assert said == ["Of 1 mean the rated outputs are not a random sample, so nothing is said: see the notes."]


def test_a_judge_that_gives_more_of_a_penalty_than_people_is_too_strict(lake):
    with source_of(lake, "penalty") as source:
        found, findings = read_people(source), read_trust(source).findings
    bias, levels = (figure(found, name).sentence for name in ("people-bias", "people-levels-1"))
    assert "mean is 0.600 above that of people: too strict beyond" in bias
    assert "On penalties a higher mean is stricter: tone." in bias
    assert "the judge gave the better level in 0, the worse level in 6." in levels
    assert "the judge is too strict there." in found.means_figure.sentence
    (people,) = (each.words for each in findings if each.topic == "People")
    assert people.endswith("Beyond chance the judge is stricter than people on tone (+0.600).")


# -------- corrected means
def test_the_corrected_means_are_those_of_calibrate(lake, contents):
    (row,) = calibrate_run(lake, "again").rows
    (shown,) = contents.means_figure.table.rows
    assert shown[2:6] == ("8", "40", "0.750", f"{row.corrected.value:.3f}")
    assert shown[7] == f"{row.rated.value:.3f}"
    assert shown[9] == (f"{row.more_count:,} more" if row.more_count else "–")
    assert f"gives m 0.750; with people's ratings of 8 of 40 outputs it is {row.corrected.value:.3f}" in (
        contents.means_figure.sentence
    )


# -------- judge noise
def test_each_rate_of_judge_noise_has_a_sentence(contents):
    assert "differ in 12.5% of the pairs on tone of m" in figure(contents, "people-flips").sentence
    assert "go together as those of 1.50 unrelated ones" in figure(contents, "people-judges").sentence
    assert "25.0% of the variance" in figure(contents, "people-noise").sentence
    assert not any(each.id == "people-swaps" for each in contents.noise_figures)


# -------- absent and hostile values
def test_failures_that_the_judge_finds_stand_beside_agreement(lake):
    # People fail places 2, 3, 6 and 7 of 8, the judge two of them; both pass the other four.
    with source_of(lake, "as_published") as source:
        tables = read_people(source).tables
    (row,) = next(table for table in tables if table.caption.startswith("Failures that people found")).rows
    assert row[:3] == ("tone", "8", "4")
    assert [cell.partition(" ")[0] for cell in row[3:6]] == ["50.0%", "75.0%", "50.0%"]


def test_without_ratings_and_several_opinions_there_is_no_section(lake):
    with source_of(lake, "bare") as source:
        assert read_people(source) is None


def test_hostile_and_equal_level_names_are_shown_as_distinct_text(lake, tmp_path):
    page = write_report(lake, summarise(lake, "odd"), tmp_path / "report.html").read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; (2)" in page


@pytest.mark.nightly
def test_raters_and_sources_of_variance_have_tables_where_there_are_some(tmp_path):
    lake = make_lake(tmp_path)
    rng = np.random.default_rng(5)
    replies = np.clip(rng.integers(0, 2, (40, 1)) + rng.choice([0, 0.5], (40, 2)), 0, 1)
    outputs = [{"case_id": f"c{place:02}"} for place in range(40)]
    write_replicates(lake, "r", make_rubric("tone", {"id": "tone"}), outputs, {"one": {"tone": replies}})
    noise = [NOISE | {"run_id": "r"}]
    ratings = [
        {"output_id": f"r/{place}", "criterion_id": "tone", "rater": rater, "score": score, "rated_at": "2026-11-02"}
        for rater, score in (("ann", 1.0), ("bob", 0.5))
        for place in range(30)
    ]
    commit(lake, "tell", lambda connection, _: add_rows(connection, {"judge_noise": noise, "ratings": ratings}))
    with source_of(lake, "r") as source:
        tables = {table.caption: table.rows for table in read_people(source).tables}
    assert [row[:3] for row in tables["Raters"]] == [("ann", "30", "+0.250"), ("bob", "30", "-0.250")]
    assert tables["Mean ratings, adjusted for the raters' severity"][0][:4] == ("m", "30", "0.750", "0.750")
    assert [row[1] for row in tables["Standard deviation by source"]][:2] == ["overall", "tone"]
    study = tables["What more would gain: standard error of the mean overall score"]
    assert [row[1] for row in study] == ["this run", "2 replicates", "100 cases"]
    assert float(study[2][5]) < float(study[0][5])
