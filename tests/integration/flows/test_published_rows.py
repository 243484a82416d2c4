"""A published row never changes: digests of published runs before and after later events."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.lake.versions import list_versions
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.samples import write_lines, write_outputs, write_rubric

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
TABLES = """
select table_name from duckdb_columns()
where database_name = 'lake' and column_name = 'run_id'
    and table_name in (select table_name from duckdb_tables() where database_name = 'lake' and schema_name = 'main')
"""
OF_RUBRIC = "(rubric_id, rubric_version) in (select (rubric_id, rubric_version) from runs where run_id = $1)"
OTHERS = {
    "outputs": "output_id in (select output_id from output_scores where run_id = $1)",
    **dict.fromkeys(("rubrics", "criteria", "levels"), OF_RUBRIC),
}
DIGEST = "select count(*), md5(coalesce(string_agg(t::varchar, chr(10) order by t::varchar), '')) from {name} as t"
OWN = {
    "id": "brief",
    "description": "At most 3 words.",
    "method": {"type": "check", "check": "length_words", "settings": {"max": 3}},
}
RATED = {"case_id": "c0", "model": "small", "criterion_id": "clarity", "level_id": "clear"}

Digests = dict[tuple[str, str], tuple[int, str]]  # (run, table) -> number of rows, and their digest


def digests(lake: Lake, *run_ids: str) -> Digests:
    """Digests of all rows of the runs; at a run's version, if given."""
    with connect(lake, read_only=True) as connection:
        tables = {name: "run_id = $1" for (name,) in connection.execute(TABLES).fetchall()} | OTHERS
        return {(run, name): digest(connection, name, which, run) for run in run_ids for name, which in tables.items()}


def digest(connection: duckdb.DuckDBPyConnection, name: str, which: str, run_id: str) -> tuple[int, str]:
    (row,) = connection.execute(f"{DIGEST.format(name=name)} where {which}", [run_id]).fetchall()
    return row


@dataclass
class Story:
    """Digests of the runs a and b: at publication, at the end, and at the end at their own versions."""

    published: Digests = field(default_factory=dict)
    later: Digests = field(default_factory=dict)
    at_versions: Digests = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    lake: Lake | None = None


@pytest.fixture(scope="module")
def kept() -> list[Story]:
    """Story of the first test; later tests reuse it."""
    return []


@pytest.fixture
def story(gradebook, evaluate, judge, tmp_path: Path, kept: list[Story], tmp_path_factory) -> Story:
    if not kept:
        kept.append(tell(gradebook, evaluate, judge, tmp_path))
        folder = shutil.copytree(tmp_path / "lake", tmp_path_factory.mktemp("story") / "lake")
        kept[0].lake = find_lake(f"sqlite:{folder}/catalog.sqlite")
    return kept[0]


def write_inputs(folder: Path) -> None:
    """Write two files of outputs (one with an invalid row), rubrics of two versions, a panel, and ratings."""
    rows = [json.loads(line) for line in write_outputs(folder / "o.jsonl", 2).read_text(encoding="utf-8").splitlines()]
    write_lines(folder / "first.jsonl", [row | {"criteria": [OWN]} for row in rows])
    write_lines(folder / "second.jsonl", [*rows, {"case_id": "c9"}])
    write_rubric(folder / "one.yaml")
    write_rubric(folder / "two.yaml", "1.1.0", weight=3)
    (folder / "panel.yaml").write_text("panel: [gpt-4o-mini, gpt-4o]\n")
    for name in ("ann", "bob"):
        write_lines(folder / f"{name}.jsonl", [RATED | {"rater": rater} for rater in (name, f"{name} again")])


def tell(gradebook: Callable[..., Any], evaluate: Callable[..., Any], judge: LoopbackJudge, folder: Path) -> Story:
    write_inputs(folder)
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    story = Story()

    def run(outputs: str, rubric: str, *more: str) -> int:
        return evaluate(f"{outputs}.jsonl", "--rubric", f"{rubric}.yaml", "--max-bad-rate", "0.5", *more).code

    assert run("first", "one", "--judge", "panel.yaml", "--run-id", "a", "--feedback", "llm") in (0, 1)
    story.published |= digests(lake, "a")
    of_b = ("--judge", "gpt-4o", "--ratings", "ann.jsonl", "--baseline", "a")
    assert run("second", "one", *of_b, "--run-id", "b") in (0, 1)
    story.published |= digests(lake, "b")
    # later events: another run of the same outputs, ratings, a failed run, and a's run id again
    assert run("first", "two", "--judge", "panel.yaml", "--run-id", "c") in (0, 1)
    assert gradebook("people", "ratings", "import", "bob.jsonl", "--rubric", "one.yaml", "--run", "b").code == 0
    judge.faults = ["quota"]
    assert run("second", "one", "--judge", "gpt-4.1-mini", "--run-id", "d") == 3
    assert run("first", "one", "--judge", "panel.yaml", "--run-id", "a", "--feedback", "llm") in (0, 1)
    assert run("second", "two", "--run-id", "a") == 2
    story.later = digests(lake, "a", "b")
    story.at_versions = digests(replace(lake, at=version_of(lake, "a")), "a")
    story.at_versions |= digests(replace(lake, at=version_of(lake, "b")), "b")
    story.kinds = [each.kind for each in list_versions(lake, 100).versions]
    return story


def version_of(lake: Lake, run_id: str) -> int:
    with connect(lake, read_only=True) as connection:
        ((version,),) = connection.execute("select version from runs where run_id = ?", [run_id]).fetchall()
    return int(version)


def test_rows_of_published_runs_stay_as_they_were(story: Story):
    assert story.later == story.published


def test_rows_of_published_runs_are_the_same_at_their_versions(story: Story):
    assert story.at_versions == story.published


def test_the_digests_are_of_rows_in_every_table(story: Story):
    counts = {table: 0 for _, table in story.published}
    for (_, table), (count, _) in story.published.items():
        counts[table] += count
    # A weak spot needs ten outputs of a model: see commands/test_rebuild.py. Checkpoints are decided in
    # tests/integration/tasks/operations/test_checkpoint_decisions.py, disputes and pairs in
    # tests/integration/tasks/serving, claims and similarities in tests/integration/tasks/scoring.
    others = [
        "anchors",
        "audited_scores",
        "claim_verdicts",
        "judged_preferences",
        "reference_runs",
        "step_adjudications",
        "step_opinions",
        "step_verdicts",
    ]  # see tasks/operations, tasks/comparing/test_references.py and tasks/scoring/test_steps.py
    empty = sorted(["adjudications", "checkpoints", "claims", "preferences", "similarities", "weak_spots", *others])
    assert sorted(table for table, count in counts.items() if not count) == empty


@pytest.mark.parametrize("change", ["mean = nextafter(mean, 2)", *matrix(["checkpoint = ''"])])
def test_any_change_of_a_row_changes_its_digest(story: Story, tmp_path: Path, change: str):
    shutil.copytree(story.lake.root, tmp_path / "changed")
    lake = find_lake(f"sqlite:{tmp_path}/changed/catalog.sqlite")
    update = f"update criterion_scores set {change} where run_id = 'b' and criterion_id = 'length' and model = 'small'"
    commit(lake, "tamper", lambda connection, _version: connection.execute(update))
    found = digests(lake, "a", "b")
    assert {key for key in found if found[key] != story.published[key]} == {("b", "criterion_scores")}


def test_the_log_names_the_cause_of_each_version(story: Story):
    assert story.kinds == ["failed", "ratings", "published", "published", "published", "tables"]
