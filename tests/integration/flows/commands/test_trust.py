"""The commands about runs take the word `latest`; `gradebook judge trust` answers with its grounds."""

from pathlib import Path

import pytest

from tests.support.new_lakes import write_copy
from tests.support.rated_lake import JUDGED, RATED, JudgedRun, publish_agreement, publish_runs, ratings_of
from tests.support.scored_lake import make_lake


def fill(folder: Path) -> None:
    """Two runs: nobody rated the first; a judge of forty outputs, the last, is too kind to one in four of eight."""
    lake = make_lake(folder)
    runs = {"unrated": JudgedRun(JUDGED[:4], prefix="u"), "rated": JudgedRun(JUDGED, prefix="p")}
    noise = {"run_id": "rated", "model": "m", "criterion_id": "tone", "n": 40, "opinion_count": 80, "flip_rate": 0.1}
    ratings = [*ratings_of(RATED, "ann", "p"), *ratings_of(RATED[:2], "bob", "p")]
    publish_runs(lake, runs, {"ratings": ratings, "judge_noise": [noise]})
    publish_agreement(lake, ["rated"])


@pytest.fixture
def trust(gradebook, tmp_path):
    write_copy(tmp_path, fill)
    return lambda *words: gradebook("judge", "trust", *words)


def test_the_answer_names_the_criterion_and_each_ground_its_command(trust):
    found = trust("--json").json
    assert found["run_id"] == "rated"
    assert found["criteria"] == {"tone": "chance"}  # 8 of 10 the same, of two levels
    assert found["answer"] == "No on tone, where it is no better than chance, as far as the ratings show."
    grounds = {each["topic"]: each for each in found["grounds"]}
    commands = {topic: (each["command"] or "").split(" --")[0] for topic, each in grounds.items()}
    assert commands == {
        "People": "gradebook people agreement rated",
        "Calibration": "gradebook people calibrate rated",
        "Consistency": "gradebook judge noise rated",
        "Judge over time": "gradebook judge anchors make rated",
        "Raters": "gradebook people raters rated",
    }
    assert "10.0% of the pairs" in grounds["Consistency"]["sentence"]
    # ann rated 8 outputs, bob 2 of them alike: 2 of 2 pairs
    assert "2 raters gave 10 ratings. They gave the same level on tone in 100.0%" in grounds["Raters"]["sentence"]


def test_without_ratings_the_commands_are_those_that_make_them(trust):
    shown = trust("unrated")
    assert (shown.code, shown.err) == (0, "")
    assert "May the judge be trusted? Unknown on tone, as nobody rated what it scored.\n" in shown.out
    assert shown.out.count("  gradebook people rate unrated --n 50") == 3  # for people, calibration and raters


@pytest.mark.parametrize(
    "words",
    [
        ("judge", "trust", "latest", "--json"),
        ("report", "latest", "--format", "md", "--out", "-"),
        ("why", "latest", "c00", "--json"),
        ("compare", "unrated", "latest", "--unpaired", "--json"),
        ("report", "rated", "--at", "latest", "--format", "md", "--out", "-"),
    ],
)
def test_latest_is_the_latest_published_run(trust, gradebook, words):
    latest, named = gradebook(*words), gradebook(*("rated" if word == "latest" else word for word in words))
    assert (latest.code, latest.err) == (0, "")
    assert latest.out == named.out


def test_latest_is_no_id_for_a_new_run(gradebook):
    refused = gradebook("evaluate", "outputs.jsonl", "--rubric", "general_answer", "--run-id", "latest")
    assert (refused.code, "--run-id: found 'latest'" in refused.err) == (2, True)
