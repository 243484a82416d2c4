"""`gradebook people raters` on a lake of given ratings and decisions."""

import pytest

from gradebook.tasks.lake.connections import commit
from tests.support.rated_lake import JUDGED, RATED, JudgedRun, publish_runs, ratings_of
from tests.support.scored_lake import make_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Outputs o00 to o07 are rated by ann and bob, o00 and o01 by lea too; lea decided on o01, o02 and o03."""
    found = make_lake(tmp_path_factory.mktemp("raters"))
    ratings = [
        *ratings_of(RATED, "ann"),
        *ratings_of([1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0], "bob"),
        *ratings_of([1.0, 1.0], "lea"),
    ]
    decided = [
        {"output_id": f"o{place:02}", "criterion_id": "tone", "adjudicator": "lea", "score": score}
        for place, score in ((1, 1.0), (2, 0.0), (3, 1.0))
    ]
    publish_runs(found, {"r": JudgedRun(JUDGED)}, {"ratings": ratings, "adjudications": decided})
    return f"--lake=sqlite:{found.address}"


@pytest.mark.nightly
def test_each_rater_has_a_row(gradebook, lake):
    shown = gradebook("people", "raters", "r", "--pairs", "--json", lake).json
    ann, bob, lea = shown["raters"]
    assert [row["rater"] for row in (ann, bob, lea)] == ["ann", "bob", "lea"]
    assert [row["output_count"] for row in (ann, bob, lea)] == [8, 8, 2]
    # ann 11001100, bob 10011100, lea 11: ann and bob agree in 6 of 8, ann and lea in 2 of 2, bob and lea in 1 of 2
    assert [row["beside"]["agreement"]["value"] for row in (ann, bob, lea)] == [8 / 10, 7 / 10, 3 / 4]
    # o01: ann and lea say 1, bob 0; o03: ann says 0, bob 1
    assert [row["beside"]["difference"]["value"] for row in (ann, bob, lea)] == [-0.5 / 8, 0.0, 0.5 / 2]
    assert ann["severity"] < lea["severity"] and sum(row["severity"] for row in (ann, bob, lea)) == pytest.approx(0)
    (model,) = shown["models"]
    # means of o00 to o07: 1, 2/3, 0, 1/2, 1, 1, 0, 0
    assert (model["model"], model["n"], model["plain"]) == ("m", 8, pytest.approx(25 / 6 / 8))
    assert model["ci_low"] is None and model["reason"] == "found 8 cases, expected 20 or more for an interval"
    # lea's decisions 1, 0, 1 on o01 to o03; her own rating of o01 is not compared with her decision
    decided = [(row["decisions"]["value"], row["decisions"]["n"]) for row in (ann, bob, lea)]
    assert decided == [(pytest.approx(2 / 3), 3), (pytest.approx(2 / 3), 3), (None, 0)]
    pairs = {(pair["rater"], pair["other"]): pair["beside"]["agreement"]["value"] for pair in shown["pairs"]}
    assert pairs == {("ann", "bob"): 6 / 8, ("ann", "lea"): 1.0, ("bob", "lea"): 1 / 2}


def test_the_terminal_shows_raters_pairs_and_why_an_interval_is_missing(gradebook, lake):
    shown = gradebook("people", "raters", "--criterion", "tone", "--pairs", lake).out
    assert "raters beside all others" in shown and "pairs of raters" in shown
    assert "note: lea: found 2 cases, expected 8 or more for an interval" in shown
    assert "pairs of raters" not in gradebook("people", "raters", "r", lake).out


@pytest.mark.nightly
def test_labels_are_settled_from_raters_and_the_judge(gradebook, lake, tmp_path):
    shown = gradebook("people", "raters", "r", "--labels", lake)
    assert "note: tone: found 8 outputs with two labels or more, expected 300" in shown.out
    many = make_lake(tmp_path)
    truth = [float(place % 2) for place in range(300)]
    judged = [1.0 - score if place >= 270 else score for place, score in enumerate(truth)]
    ratings = [*ratings_of(truth, "ann"), *ratings_of([1.0] * 150 + truth[150:], "bob")]
    publish_runs(many, {"r": JudgedRun(judged)}, {"ratings": ratings})
    (tone,) = gradebook("people", "raters", "--labels", "--json", f"--lake=sqlite:{many.address}").json["settled"]
    accuracies = {voice["who"] or voice["side"]: voice["accuracy"] for voice in tone["voices"]}
    assert accuracies == pytest.approx({"ann": 1.0, "bob": 0.75, "judge": 0.9}, abs=0.02)
    assert {label["output_id"]: label["level"] for label in tone["labels"]} == {
        f"o{place:02}": score for place, score in enumerate(truth)
    }
    text = gradebook("people", "raters", "--labels", f"--lake=sqlite:{many.address}").out
    assert "gives the true level" in text and "of 300 labels with a probability of 0.95 or more" in text


def test_an_unknown_criterion_is_refused_and_nobody_is_no_fault(gradebook, lake, tmp_path):
    refused = gradebook("people", "raters", "r", "--criterion", "x", lake)
    assert (refused.code, "--criterion: found 'x', expected one of tone" in refused.err) == (2, True)
    empty = make_lake(tmp_path)
    publish_runs(empty, {"r": JudgedRun(JUDGED)}, {})
    assert (
        "note: nobody rated the outputs of this run; to collect ratings: `gradebook people rate r --n 50`"
        in gradebook("people", "raters", f"--lake=sqlite:{empty.address}").out
    )


@pytest.mark.nightly
def test_a_version_before_decisions_and_selections_is_read(gradebook, tmp_path):
    found = make_lake(tmp_path)
    publish_runs(found, {"r": JudgedRun(JUDGED)}, {"ratings": ratings_of(RATED, "ann")})

    def age(connection, version):
        connection.execute("drop table adjudications")
        connection.execute("alter table ratings drop column selection")
        (tmp_path / "version").write_text(str(version), encoding="utf-8")

    commit(found, "age", age)
    at = ("--json", "--at", (tmp_path / "version").read_text(encoding="utf-8"), f"--lake=sqlite:{found.address}")
    assert gradebook("people", "raters", "r", *at).json["raters"][0]["rating_count"] == 8
    assert gradebook("people", "calibrate", "r", *at).json["calibration"][0]["n"] == 8
