"""A random sample of a dataset's cases: N of them with all their outputs, always the same ones."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from published_runs import publish
from samples import write_outputs

from gradebook.rubrics.model.errors import InputError, OutputsError
from gradebook.tasks.datasets.ingest import Ingested, ingest_outputs
from gradebook.tasks.datasets.sample import CaseSample, SampleTaken
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from gradebook.tasks.workspace.folder import RunFolder

CHECK = "{type: check, check: length_words, settings: {max: 9}}"
RUBRIC = f"{{id: r, version: 1.0.0, criteria: [{{id: short, description: Short., weight: 1, method: {CHECK}}}]}}"


def stored(folder: Path, outputs: Path, sample: int, **settings: int) -> tuple[Ingested, list[tuple[str, str]]]:
    """An ingest of a sample; the case and model of each of its outputs."""
    import pyarrow.parquet as pq

    ingested = ingest_outputs("run", [outputs], folder / f"run-{sample}", sample=sample, **settings)
    tables = [pq.read_table(shard, columns=["case_id", "model"]) for shard in ingested.shards]
    return ingested, [(row["case_id"], row["model"]) for table in tables for row in table.to_pylist()]


def taken(case_ids: list[str], size: int) -> CaseSample:
    cases = CaseSample(size)
    for case_id in case_ids:
        cases.take(case_id)
    return cases


def test_the_cases_of_a_sample_do_not_depend_on_the_order_of_the_rows():
    names = [f"c{number}" for number in range(500)]
    assert sorted(taken(names, 20).case_ids) == sorted(taken(names[::-1] * 2, 20).case_ids)


def test_a_larger_sample_contains_a_smaller_one():
    names = [f"c{number}" for number in range(500)]
    sizes = [set(taken(names, size).case_ids) for size in (1, 5, 50, 499, 500, 600)]
    assert [len(each) for each in sizes] == [1, 5, 50, 499, 500, 500]
    assert all(small <= large for small, large in pairwise(sizes))


def test_the_cases_of_a_sample_are_these():  # of every version: the same file gives the same cases
    assert sorted(taken([f"c{number}" for number in range(100)], 3).case_ids) == ["c24", "c55", "c8"]


def test_a_sample_counts_the_cases_that_it_was_taken_of_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gradebook.tasks.datasets.sample._LEAST_RANKS", 64)
    cases = taken([f"c{number % 300}" for number in range(3_000)], 7)
    assert (cases.taken, cases.row_count) == (SampleTaken(7, 300), 70)


def test_a_sample_of_all_cases_needs_no_words():
    assert SampleTaken(5, 5).sentence == ""
    assert SampleTaken(1_000, 12_000).sentence == "a random sample of 1,000 of 12,000 cases, seed 0"


def test_a_sample_has_all_outputs_of_its_cases_and_no_others(tmp_path):
    outputs = write_outputs(tmp_path / "o.jsonl", count=40)
    ingested, rows = stored(tmp_path, outputs, 4)
    cases = {case for case, _ in rows}
    assert sorted(rows) == sorted((case, model) for case in cases for model in ("small", "large"))
    assert (len(cases), ingested.output_count, ingested.row_count, ingested.duplicate_count) == (4, 8, 80, 0)
    assert ingested.sample == SampleTaken(4, 40)


def test_outputs_that_a_later_case_displaced_are_in_no_shard(tmp_path):
    outputs = write_outputs(tmp_path / "o.jsonl", count=60, models=("m",))
    ingested, rows = stored(tmp_path, outputs, 3, shard_rows=2)
    assert sorted(rows) == sorted(stored(tmp_path / "whole", outputs, 3)[1])
    assert (len(rows), len(ingested.shards) <= 3, ingested.models) == (3, True, ("m",))


def test_models_and_repeated_rows_are_those_of_the_sample(tmp_path):
    names = [f"c{number}" for number in range(30)]
    (chosen,) = taken(names, 1).case_ids
    rows = [{"case_id": name, "model": f"of {name}", "output": "yes"} for name in names] * 3
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingested, _ = stored(tmp_path, tmp_path / "o.jsonl", 1, shard_rows=1)
    assert (ingested.models, ingested.duplicate_count, ingested.output_count) == ((f"of {chosen}",), 2, 1)


def test_bad_rows_of_all_cases_count(tmp_path):
    outputs = write_outputs(tmp_path / "o.jsonl", count=10, models=("m",))
    outputs.write_text(outputs.read_text() + "no json\n" * 5)
    with pytest.raises(OutputsError, match="found 5 of 15 rows that do not fit"):
        stored(tmp_path, outputs, 1)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "rubric.yaml").write_text(RUBRIC)
    return write_outputs(tmp_path / "outputs.jsonl", count=20), tmp_path / "rubric.yaml"


def test_a_run_over_a_sample_says_so_and_scores_nothing_else(files):
    outputs, rubric = files
    summary = publish(outputs, rubric, sample=5, run_id="part")
    assert summary.run["output_count"] == 10
    assert summary.as_json()["notes"] == ["a random sample of 5 of 20 cases, seed 0"]
    assert json.loads(summary.run["settings"])["sample"] == 5
    report = RunFolder(outputs.parent / "lake" / "runs" / "part").report_file.read_text(encoding="utf-8")
    assert "a random sample of 5 of 20 cases, seed 0" in report.partition("</header>")[0]


def test_a_sample_keeps_the_digest_of_its_file(files):
    runs = [publish(*files, sample=sample).run for sample in (None, 5)]
    assert len({run["dataset_digest"] for run in runs}) == 1


def test_runs_over_two_samples_are_two_runs_and_the_larger_has_the_outputs_of_the_smaller(files):
    runs = [publish(*files, sample=sample).run_id for sample in (3, 6, None)]
    query = "select output_id from output_scores where run_id = ?"
    with connect(find_lake(f"sqlite:{files[0].parent}/lake/catalog.sqlite"), read_only=True) as connection:
        outputs = [{row["output_id"] for row in read_rows(connection, query, run)} for run in runs]
    assert [len(each) for each in outputs] == [6, 12, 40]
    assert outputs[0] < outputs[1] < outputs[2]


def test_a_published_run_is_not_read_back_for_another_sample(files):
    publish(*files, sample=3, run_id="part")
    assert publish(*files, sample=3, run_id="part").run["output_count"] == 6
    with pytest.raises(InputError, match="found part, which evaluated other outputs"):
        publish(*files, run_id="part")
    shutil.rmtree(files[0].parent / "lake" / "runs" / "part")  # published on another machine
    with pytest.raises(InputError, match="found part, which published a sample of 3 cases; expected a new id for all"):
        publish(*files, run_id="part")


def test_a_run_over_a_sample_is_compared_on_the_cases_of_both(files):
    publish(*files, run_id="whole")
    comparison = publish(*files, sample=5, baseline="whole").comparison
    assert comparison is not None
    overall = [(row["model"], row["n"]) for row in comparison.figures if row["scope"] == "overall"]
    assert sorted(overall) == [("large", 5), ("small", 5)]


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
