"""A random sample of a dataset's cases: N of them with all their outputs, always the same ones."""

import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.errors import InputError, OutputsError
from gradebook.tasks.datasets.ingest import Ingested, ingest_outputs
from gradebook.tasks.datasets.sample import CaseSample, SampleTaken, share_out
from tests.support.samples import write_outputs


def stored(folder: Path, outputs: Path, sample: int, **settings: int) -> tuple[Ingested, list[tuple[str, str]]]:
    """An ingest of a sample; the case and model of each of its outputs."""
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


@pytest.mark.parametrize(
    ("size", "case_counts", "expected"),
    [
        (10, {"a": 60, "b": 30, "c": 10}, {"a": 5, "b": 3, "c": 2}),  # c's share is 1: raised to 2, the rest shared out
        (10, {"a": 50, "b": 50}, {"a": 5, "b": 5}),
        (7, {"b": 50, "a": 50}, {"b": 3, "a": 4}),  # equal remainders: by name
        (9, {"a": 1_000, "b": 1, "c": 1}, {"a": 7, "b": 1, "c": 1}),
        (99, {"a": 3, "b": 1}, {"a": 3, "b": 1}),  # all cases
    ],
)
def test_cases_are_shared_out_by_stratum(size, case_counts, expected):
    assert share_out(size, case_counts) == expected


@pytest.mark.parametrize(
    ("column", "size", "message"),
    [
        ("nope", 10, "no row with the column or metadata key 'nope'"),
        ("model", 10, "found model, one of gradebook's own columns .*, expected another column of the file"),
        ("engine", 10, "found engine, which --map makes model, one of gradebook's own columns"),
        ("number", 10, "found more than 10 strata"),
        ("number", 30, "found 20 strata, expected at most 15, of 2 cases each"),
        ("side", 10, "expected one value a case"),
    ],
)
def test_strata_that_do_not_fit_are_refused_and_leave_nothing(tmp_path, column, size, message):
    rows = [
        {"case_id": f"c{n % 40}", "engine": f"m{n // 40}", "output": "x", "number": n % 20, "side": n // 40}
        for n in range(80)
    ]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=message):
        ingest_outputs(
            "run",
            [tmp_path / "o.jsonl"],
            tmp_path / "run",
            column_map={"model": "engine"},
            sample=size,
            stratify=column,
        )
    assert [file.name for file in (tmp_path / "run").glob("**/*") if "quarantine" not in file.name] == []
