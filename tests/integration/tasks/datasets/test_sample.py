"""Runs over a random sample of a dataset's cases."""

import json
import shutil
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.published_runs import publish
from tests.support.samples import write_outputs

CHECK = "{type: check, check: length_words, settings: {max: 9}}"
RUBRIC = f"{{id: r, version: 1.0.0, criteria: [{{id: short, description: Short., weight: 1, method: {CHECK}}}]}}"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "rubric.yaml").write_text(RUBRIC)
    return write_outputs(tmp_path / "outputs.jsonl", count=20), tmp_path / "rubric.yaml"


@pytest.mark.nightly
def test_a_run_over_a_sample_says_so_and_scores_nothing_else(files):
    outputs, rubric = files
    summary = publish(outputs, rubric, has_report=True, sample=5, run_id="part")
    assert summary.run["output_count"] == 10
    assert summary.as_json()["notes"] == ["a random sample of 5 of 20 cases, seed 0"]
    assert json.loads(summary.run["settings"])["sample"] == 5
    report = RunFolder(outputs.parent / "lake" / "runs" / "part").report_file.read_text(encoding="utf-8")
    assert "a random sample of 5 of 20 cases, seed 0" in report.partition("</header>")[0]


@pytest.mark.nightly
def test_a_sample_keeps_the_digest_of_its_file(files):
    runs = [publish(*files, sample=sample).run for sample in (None, 5)]
    assert len({run["dataset_digest"] for run in runs}) == 1


@pytest.mark.nightly
def test_runs_over_two_samples_are_two_runs_and_the_larger_has_the_outputs_of_the_smaller(files):
    runs = [publish(*files, sample=sample).run_id for sample in (3, 6, None)]
    query = "select output_id from output_scores where run_id = ?"
    with connect(find_lake(f"sqlite:{files[0].parent}/lake/catalog.sqlite"), read_only=True) as connection:
        outputs = [{row["output_id"] for row in read_rows(connection, query, run)} for run in runs]
    assert [len(each) for each in outputs] == [6, 12, 40]
    assert outputs[0] < outputs[1] < outputs[2]


@pytest.mark.nightly
def test_a_published_run_is_not_read_back_for_another_sample(files):
    publish(*files, sample=3, run_id="part")
    assert publish(*files, sample=3, run_id="part").run["output_count"] == 6
    with pytest.raises(InputError, match="found part, which evaluated other outputs"):
        publish(*files, run_id="part")
    shutil.rmtree(files[0].parent / "lake" / "runs" / "part")  # published on another machine
    with pytest.raises(InputError, match="found part, which published a sample of 3 cases, expected a new id for all"):
        publish(*files, run_id="part")


@pytest.mark.nightly
def test_a_run_over_a_sample_is_compared_on_the_cases_of_both(files):
    publish(*files, run_id="whole")
    comparison = publish(*files, sample=5, baseline="whole").comparison
    assert comparison is not None
    overall = [(row["model"], row["n"]) for row in comparison.figures if row["scope"] == "overall"]
    assert sorted(overall) == [("large", 5), ("small", 5)]


@pytest.mark.nightly
def test_a_rescored_run_is_still_one_over_a_sample(files):
    publish(*files, sample=5, run_id="part")
    files[1].write_text(RUBRIC.replace("1.0.0", "1.1.0").replace("weight: 1", "weight: 2"))
    request = RescoreRequest(
        "part", str(files[1]), lake=f"sqlite:{files[0].parent}/lake/catalog.sqlite", run_id="again"
    )
    first, again = (rescore_run(request)[0] for _ in range(2))
    assert first.run == again.run
    assert json.loads(again.run["settings"])["sample"] == 5
    assert "of part: a random sample of 5 of 20 cases, seed 0" in again.run["notes"]
