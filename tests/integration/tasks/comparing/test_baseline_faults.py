"""Unusable baselines: a gate fails with them, and a published run stays readable."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pytest

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.status import read_status
from gradebook.tasks.published.summary import RunSummary, summarise
from gradebook.tasks.reporting.site import read_home
from gradebook.tasks.stages.rescore import _copied_columns
from tests.support.nightly import matrix
from tests.support.published_runs import publish

RUBRIC = """
id: words
version: 1.0.0
criteria:
  - id: brief
    description: At most 3 words.
    method: {type: check, check: length_words, settings: {max: 3}}
"""
RULE = "mean_diff < -0.9"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one rubric: a of the model m, b compared with it, renamed of another model without a counterpart."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    evaluate(folder, "a", "m")
    evaluate(folder, "b", "m", baseline="latest", fail_if=RULE)
    evaluate(folder, "renamed", "k", baseline="latest", fail_if=RULE)
    change(folder, "update runs set trigger = 'rescore', version = version + 100 where run_id = 'renamed'")
    return folder


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """Copy of the folder that a test may change."""
    return Path(shutil.copytree(folder, tmp_path / "copied"))


def evaluate(folder: Path, run_id: str, model: str, **request: Any) -> RunSummary:
    rows = [{"case_id": f"c{case}", "model": model, "output": f"{run_id} {case}"} for case in range(3)]
    outputs = folder / f"{run_id}.jsonl"
    outputs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return publish(outputs, folder / "rubric.yaml", run_id=run_id, **request)


def lake_in(folder: Path) -> Lake:
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def change(folder: Path, statement: str) -> None:
    """Change published rows, as gradebook itself never does."""
    commit(lake_in(folder), "change", lambda connection, _version: connection.execute(statement) and None)


@pytest.mark.nightly
def test_a_rule_fails_where_earlier_runs_have_no_model_in_common(folder):
    found = summarise(lake_in(folder), "renamed")
    why = f"gate undecided: required not ({RULE}), found no comparison: no earlier run of words has a model in common"
    assert (found.is_met, tuple(map(str, found.unmet)), found.comparison) == (False, (why,), None)


@pytest.mark.parametrize("has_folders", [True, *matrix([False])])
def test_status_and_site_state_the_unmet_rule_as_the_summary_does(copied, has_folders):
    if not has_folders:  # another machine than the one that evaluated
        shutil.rmtree(copied / "lake" / "runs")
    found = tuple(map(str, summarise(lake_in(copied), "renamed").unmet))
    (row,) = read_status(lake_in(copied), datetime(2026, 11, 1, tzinfo=UTC), 7).last_published
    with connect(lake_in(copied), read_only=True) as connection:
        words = {line.run_id: line.word for line in read_home(connection, lake_in(copied)).runs}
    assert (row["run_id"], row["is_met"], tuple(row["unmet"])) == ("renamed", False, found)
    assert row["has_requirement"]
    assert words == {"a": "no gate", "b": "may ship", "renamed": "undecided"}


@pytest.mark.nightly
def test_a_rescored_run_is_not_the_latest_one(copied):
    assert json.loads(evaluate(copied, "k", "k", baseline="latest").run["settings"])["baseline_run_id"] is None


def test_a_run_with_an_unreadable_baseline_is_read_and_fails_its_rule(copied):
    change(copied, 'update rubrics set body = replace(body, \'"brief"\', \'"brief", "newer": 1\')')
    found = summarise(lake_in(copied), "b")
    assert (len(found.scores), found.is_met, found.comparison) == (1, False, None)
    assert str(found.unmet[0]).startswith(
        f"gate undecided: required not ({RULE}), found no comparison: run: the rubric of a can't be read"
    )


@pytest.mark.nightly
def test_a_run_without_scores_meets_no_requirement(copied):
    change(copied, "delete from run_scores where run_id = 'a'")
    (unmet,) = summarise(lake_in(copied), "a").unmet
    assert str(unmet) == "found no scores of the run in run_scores, expected some"


def test_a_rescored_run_does_not_inherit_the_baseline():
    class Source:
        run_id, settings = "b", '{"baseline": "a", "baseline_run_id": "a", "fail_if": "p < 1"}'
        row = MappingProxyType({"judge": None, "stopped_at": None, "settings": settings})

    settings = json.loads(_copied_columns(Source)["settings"])
    names = ("baseline", "baseline_run_id", "fail_if", "rescored_from", "verdicts_baseline_run_id")
    assert [settings[name] for name in names] == [None, None, None, "b", "a"]


@pytest.mark.parametrize("found", ["good", "bad", "other"])
def test_a_rescored_verdict_is_the_judgment_of_its_run_or_the_earliest(found):
    # both runs asked at the same time: first got good, second bad; third was rescored from second
    with duckdb.connect() as ledger:
        ledger.execute("create table runs (run_id text, settings text)")
        ledger.execute("insert into runs values ('first', '{}'), ('second', '{}')")
        ledger.execute("""insert into runs values ('third', '{"rescored_from": "second"}')""")
        ledger.execute(
            "create table judgments as select 'key' as request_key, * from (values ('first', 'good', 1, 'j1'), "
            "('second', 'bad', 2, 'j2')) as t (run_id, level_id, asked_at, judgment_id), (select 'scored' as status)"
        )
        ledger.execute(
            "create table verdicts as select 'third' as run_id, 'o' as output_id, 'tone' as criterion_id, "
            f"'judge' as method, 'scored' as status, '{found}' as level_id, 'key' as request_key"
        )
        for table in ("opinions", "judged_preferences"):
            ledger.execute(f"create table {table} as from verdicts limit 0")
        ledger.execute("create table preference_keys (run_id text, first_key text, second_key text)")
        make_table(ledger, "ledger/looked_up", run_id="third")
        make_table(ledger, "ledger/passed_on")
        wrong = ledger.execute(query("ledger/wrong_verdicts")).fetchall()
    assert len(wrong) == (found == "other")
