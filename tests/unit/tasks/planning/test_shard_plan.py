"""Which outputs a judge is asked about where people rated some of them."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import View
from gradebook.tasks.judging.settings.judge import CascadeSettings, Judge, JudgeSettings, PanelSettings
from gradebook.tasks.planning import shard_plan
from gradebook.tasks.planning.shard_plan import ShardCases, ShardPlanner
from gradebook.tasks.ratings.run_ratings import MATCHED_SCHEMA
from gradebook.tasks.workspace.folder import RunFolder

LEVELS = [{"id": "bad", "score": 0}, {"id": "good", "score": 1}]
CASES = ShardCases(["o1", "o2", "o3"], {View(): ["1" * 32, "2" * 32, "3" * 32]}, {View(): [10, 10, 10]})
RATED = {"rater": "a", "level_id": "good", "score": 1.0, "source": "f", "is_from_file": True, "line": 1}
HELD = """
create table held_judgments (
    request_key varchar, status varchar, level_id varchar, distribution varchar, evidence varchar, rationale varchar,
    cost_usd double, run_id varchar, asked_at timestamp, judgment_id varchar
)
"""
ALL = ["o1", "o2", "o3"]
Asked = dict[tuple[str, int], list[str]]


def criterion(name: str, prefer: str = "human") -> Criterion:
    method = {"type": "judge", "prefer": prefer}
    return Criterion.model_validate({"id": name, "description": name, "method": method, "levels": LEVELS})


def member(name: str, packing: int) -> JudgeSettings:
    return JudgeSettings.model_validate({"model": name, "packing": packing})


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., Asked]:
    """The outputs that are planned, by criterion and judge; rated: (output, criterion)."""

    def plan(judge: Judge, criteria: list[Criterion], *rated: tuple[str, str]) -> Asked:
        folder = RunFolder(tmp_path / "run")
        folder.ratings_file.parent.mkdir(parents=True)
        rows = [RATED | {"output_id": output, "criterion_id": name} for output, name in rated]
        pq.write_table(pa.Table.from_pylist(rows, schema=MATCHED_SCHEMA), folder.ratings_file)
        asked: Asked = {}
        with duckdb.connect() as ledger:
            ledger.execute(HELD)
            ShardPlanner(ledger, folder, judge).plan(criteria, CASES, 0)
        for each in criteria:
            for row in pq.read_table(folder.plan_file(each.id, 0)).to_pylist():
                asked.setdefault((each.id, row["judge_index"]), []).append(row["output_id"])
        return asked

    return plan


WARM, BRIEF, APT, SHORT = map(criterion, ("warm", "brief", "apt", "short"))


def test_a_member_of_a_panel_that_does_not_pack_is_not_asked_about_rated_outputs(ask):
    panel = PanelSettings((member("packs", 2), member("single", 1)))
    asked = ask(panel, [WARM, BRIEF], ("o1", "warm"))
    assert (asked["warm", 0], asked["warm", 1]) == (ALL, ["o2", "o3"])


def test_a_pack_is_not_asked_about_an_output_that_people_rated_on_all_of_it(ask):
    asked = ask(member("m", 2), [WARM, BRIEF, APT], ("o1", "warm"), ("o1", "brief"), ("o2", "warm"))
    # o2 is rated on warm alone, so warm and brief are asked together
    assert asked == {("warm", 0): ["o2", "o3"], ("brief", 0): ["o2", "o3"], ("apt", 0): ALL}


def test_a_pack_with_a_criterion_that_prefers_the_judge_is_asked_as_ever(ask):
    asked = ask(member("m", 2), [WARM, criterion("brief", "judge")], ("o1", "warm"), ("o1", "brief"))
    assert asked == {("warm", 0): ALL, ("brief", 0): ALL}


def test_a_template_that_names_what_only_cases_have_is_planned(ask):
    method = {"type": "judge", "template": "{% for q in questions %}{{ q }}{% endfor %}{{ reference }}"}
    shown = Criterion.model_validate({"id": "own", "description": "own", "method": method, "levels": LEVELS})
    assert ask(member("m", 2), [WARM, shown]) == {("warm", 0): ALL, ("own", 0): ALL}


def test_packs_of_a_cascade_that_differ_are_asked_whole(ask):
    judges = CascadeSettings(member("first", 2), member("then", 3))
    asked = ask(judges, [WARM, BRIEF, APT, SHORT], ("o1", "warm"), ("o1", "brief"), ("o1", "apt"))
    # warm, brief and apt are a pack of the second judge, and apt one with short of the first
    assert set(map(tuple, asked.values())) == {tuple(ALL)}


def test_both_judges_of_a_cascade_are_asked_about_the_same_outputs(ask):
    # the second would otherwise take the first one's silence for doubt
    cascade = CascadeSettings(member("first", 1), member("then", 2))
    asked = ask(cascade, [WARM, BRIEF], ("o1", "warm"), ("o2", "warm"), ("o2", "brief"))
    assert asked["warm", 0] == asked["warm", 1] == ["o1", "o3"]


def test_criteria_joined_with_the_ledger_in_parts_are_planned_as_one_by_one(ask, monkeypatch):
    monkeypatch.setattr(shard_plan, "ROWS_JOINED", 6)  # two criteria of three outputs
    asked = ask(member("m", 1), [WARM, BRIEF, APT], ("o1", "warm"), *((output, "brief") for output in ALL))
    assert asked == {("warm", 0): ["o2", "o3"], ("apt", 0): ALL}  # people rated every output on brief
