"""Suites of great-expectations: errors stop a publication, warnings do not."""

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from gradebook.rubrics.model.errors import QualityNotMet
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.stages.expectations import import_great_expectations
from gradebook.tasks.stages.quality import read_findings, validate
from gradebook.tasks.workspace.folder import RunFolder

VERDICT = {"run_id": "r", "criterion_id": "c", "method": "check", "level_id": "pass", "is_replayed": False}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "r").mkdir()
    return RunFolder(tmp_path / "r")


def verdicts(*rows: dict) -> pa.Table:
    return pa.Table.from_pylist([VERDICT | row for row in rows], schema=VERDICT_SCHEMA)


@pytest.mark.slow
def test_a_warning_of_an_import_ends_no_run():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as PYTHONWARNINGS=error
        import_great_expectations()
        warnings.warn("module 'sre_constants' is deprecated", DeprecationWarning, stacklevel=1)  # of its import


@pytest.mark.slow
def test_good_verdicts_meet_every_expectation(folder):
    scored = {"output_id": "a", "status": "scored", "score": 1.0}
    unscored = {"output_id": "b", "status": "unscored", "reason": "not_rated"}
    assert all(finding.is_met for finding in validate(folder, "verdicts", "shard 0", verdicts(scored, unscored)))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"output_id": "a", "status": "scored", "score": 1.5}, "column=score, min_value=0.0, max_value=1.0"),
        ({"output_id": "a", "status": "scored", "score": None}, "row_condition=status == scored"),
        ({"output_id": "a", "status": "unscored", "reason": None}, "row_condition=status == unscored"),
        ({"output_id": "a", "status": "odd", "score": 1.0}, "column=status"),
    ],
)
def test_a_broken_verdict_stops_the_run_and_is_named(folder, broken, words):
    with pytest.raises(QualityNotMet, match="shard 3") as raised:
        validate(folder, "verdicts", "shard 3", verdicts(broken))
    assert words in str(raised.value)


def test_a_verdict_given_twice_stops_the_run(folder):
    row = {"output_id": "a", "status": "scored", "score": 1.0}
    with pytest.raises(QualityNotMet, match="compound_columns_to_be_unique"):
        validate(folder, "verdicts", "shard 0", verdicts(row, row))


def test_empty_outputs_warn_and_stop_nothing(folder):
    names = ("output_id", "case_id", "model", "checkpoint", "output")
    outputs = pa.table({**{name: pa.array([""], pa.string()) for name in names}, "sample_index": [0]})
    broken = [finding for finding in validate(folder, "ingest", "shard 0", outputs) if not finding.is_met]
    assert [(finding.severity, finding.unexpected_count) for finding in broken] == [("warning", 1)]


def test_findings_of_a_subject_validated_twice_are_stored_once(folder):
    row = verdicts({"output_id": "a", "status": "scored", "score": 1.0})
    first = validate(folder, "verdicts", "shard 0", row)
    validate(folder, "verdicts", "shard 0", row)
    assert read_findings(folder).num_rows == len(first)
