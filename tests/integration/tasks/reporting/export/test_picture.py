"""Run as one picture, drawn without a browser."""

import struct

import pytest

from gradebook.tasks.reporting.page import picture_parts, run_picture
from tests.support.reported_runs import CASE_COUNT, publish_run, source_of

LONG = "organisation/very-long-model-name-of-many-words-{}b-instruct @ step-{}00"
CRITERIA = [{"id": f"c{number}", "weight": number + 1} for number in range(21)] + [{"id": "safe", "gate": True}]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Run of nine models with long names and 22 criteria, compared with a run with lower scores."""
    folder = tmp_path_factory.mktemp("many")
    publish_run(folder, {LONG.format(number, number): 0 for number in range(9)}, CRITERIA)
    models = {LONG.format(number, number): number + 1 for number in range(9)}
    return folder, publish_run(folder, models, CRITERIA, run_id="b", baseline="a")


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


@pytest.mark.nightly
def test_many_models_and_criteria_are_drawn_in_one_picture(many):
    with source_of(*many) as source:
        width, height = size_of(run_picture(source))
    assert 1200 <= width <= 1550
    assert height <= 4000


@pytest.mark.nightly
def test_eight_models_and_twenty_criteria_are_drawn_with_the_total_numbers(many):
    with source_of(*many) as source:
        rows, values = picture_parts(source)
    assert (len(rows["means"]), len(rows["cells"])) == (8, 8 * 20)
    assert values["means_title"].endswith("8 of 9 models")
    assert "20 of 22 criteria" in values["cells_title"]
    assert sum(bool(cell["question"]) for cell in rows["cells"]) == 20  # once a line
    assert len(set(values["models"])) == 8
    lines = [line["line"] for line in rows["head"]]
    assert not any("`" in line or "…" in line[:-1] for line in lines)  # a sentence loses its end, not its middle
    assert max(map(len, values["models"])) <= 29


@pytest.mark.nightly
def test_changes_beyond_chance_are_drawn_first_and_marked(many):
    with source_of(*many) as source:
        rows, values = picture_parts(source)
    # overall scores of nine models, then the criteria with the largest changes: from 0 to 9 of 12
    assert [change["change"].startswith("overall") for change in rows["changes"]] == [True] * 9 + [False] * 7
    assert {change["diff"] for change in rows["changes"][9:]} == {9 / CASE_COUNT}
    assert rows["changes"][-1]["words"].startswith("+0.750 (")
    assert rows["changes"][-1]["words"].endswith(" better")
    assert "the 16 largest of 207" in values["changes_title"]  # 9 x (overall + 22)


@pytest.mark.nightly
def test_the_means_are_those_of_the_run(tmp_path):
    summary = publish_run(tmp_path, {"large": 9}, [{"id": "kind"}, {"id": "safe", "gate": True}])
    with source_of(tmp_path, summary) as source:
        rows, values = picture_parts(source)
        assert size_of(run_picture(source))[1] < 900
    assert [(row["model"], row["mean"]) for row in rows["means"]] == [("large", 9 / 12)]
    assert [(row["criterion"], row["words"]) for row in rows["cells"]] == [
        ("kind · 1.000", "0.750"),
        ("safe · gate", "0.750"),
    ]
    assert not values["has_changes"]
    steps = [row["line"] for row in rows["head"] if row["line"].startswith("Next: ")]
    assert [line.split()[1] for line in steps] == ["read", "work"]


@pytest.mark.nightly
def test_a_run_without_scores_is_drawn_without_means(tmp_path):
    judged = {"method": {"type": "judge"}, "levels": [{"id": "bad", "score": 0}, {"id": "good", "score": 1}]}
    summary = publish_run(tmp_path, {"large": 9, "small": 3}, [{"id": "kind", **judged}], allow_unscored=True)
    with source_of(tmp_path, summary) as source:
        rows, values = picture_parts(source)
        size_of(run_picture(source))
    assert (values["has_means"], values["has_changes"]) == (False, False)
    assert [row["words"] for row in rows["cells"]] == ["–", "–"]
    assert "No output has an overall score." in [row["line"] for row in rows["head"]]


def test_hostile_names_are_drawn_as_text(tmp_path):
    names = {"@ink": 3, "$models": 9, "</svg><script>alert(1)</script>": 6, "a\tb\u202ec\nd": 2, "x" * 5000: 1}
    summary = publish_run(tmp_path, names, [{"id": "kind"}])
    with source_of(tmp_path, summary) as source:
        rows, _ = picture_parts(source)
        size_of(run_picture(source))
    assert {"@ink", "$models", "a b c d"} <= {row["model"] for row in rows["means"]}
