"""Outcome of a published run, as it was stored."""

import json

import duckdb
import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.summary import meets_gates
from gradebook.tasks.workspace.folder import RunFolder


@pytest.mark.parametrize(
    ("stored", "is_met"),
    [
        ({"unmet": []}, True),  # by any gradebook
        ({"unmet": ["gate failed: ..."], "is_failed": True}, False),
        ({"unmet": ["gate undecided: ..."], "is_failed": False}, True),
    ],
)
def test_a_candidate_for_a_baseline_meets_its_gates_as_was_stored(tmp_path, stored, is_met):
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    file = RunFolder.below(lake.root, "r").published_file
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(stored), encoding="utf-8")
    with duckdb.connect() as connection:  # without a table: nothing is worked out again
        assert meets_gates(connection, lake, "r") is is_met
