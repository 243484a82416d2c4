"""Outcome of a published run, as it was stored."""

import json

import duckdb
import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.summary import failed_models
from gradebook.tasks.workspace.folder import RunFolder


@pytest.mark.parametrize(
    ("stored", "failed"),
    [
        ({"unmet": []}, set()),  # by any gradebook
        ({"unmet": ["gate failed: ..."], "is_failed": True, "failed_models": ["m"]}, {"m"}),
        ({"unmet": ["gate undecided: ..."], "is_failed": False}, set()),
    ],
)
def test_models_that_failed_are_read_as_they_were_stored(tmp_path, stored, failed):
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    file = RunFolder.below(lake.root, "r").published_file
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(stored), encoding="utf-8")
    with duckdb.connect() as connection:  # without a table: nothing is worked out again
        assert failed_models(connection, lake, "r") == failed
