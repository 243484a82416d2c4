"""Dry runs compared with the runs that follow: real flows, a real endpoint, a real lake."""

import json
import shutil
from pathlib import Path

import pytest

from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.ledger.ledger import run_judgments
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import judged_criteria, query, write_outputs, write_rubric

CASES = 6
COUNT = 2 * CASES  # two models
PRICES = "prices: {input_usd: 1.0, output_usd: 1.0}\n"


@pytest.fixture
def other():
    """A second endpoint."""
    with LoopbackJudge() as server:
        yield server


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of the first `packed` and `first_asked`; later tests copy them."""
    return tmp_path_factory.mktemp("plans")


@pytest.fixture
def packed(evaluate, judge, tmp_path: Path, kept: Path) -> tuple[str, ...]:
    """Words of a published run with 4 criteria per request; five criteria, so two requests per output."""
    words = write_packed(tmp_path, 4)
    if not (kept / "packed").exists():
        finished = evaluate(*words)
        assert finished.code == 0, finished.err
        (tmp_path / "published.json").write_text(finished.out, encoding="utf-8")
        shutil.copytree(tmp_path, kept / "packed")
    shutil.copytree(kept / "packed", tmp_path, dirs_exist_ok=True)
    return words


@pytest.fixture
def first_asked(evaluate, judge, other, tmp_path: Path, kept: Path) -> tuple[str, ...]:
    """Words of an evaluation, without its judge; the first judge of a cascade has answered everything."""
    words = write_cascade(tmp_path, judge, other)
    if not (kept / "asked").exists():
        finished = evaluate(*words, "cheap.yaml")
        assert finished.code == 0, finished.err
        shutil.copytree(tmp_path / "lake", kept / "asked")
    shutil.copytree(kept / "asked", tmp_path / "lake", dirs_exist_ok=True)
    return words


def write_packed(folder: Path, packing: int) -> tuple[str, ...]:
    write_outputs(folder / "outputs.jsonl", count=CASES)
    criteria = judged_criteria("warm", "brief", "apt", "kind", "whole")
    (folder / "rubric.yaml").write_text(f"id: packed\nversion: 1.0.0\ncriteria:\n{criteria}", encoding="utf-8")
    (folder / "judge.yaml").write_text(f"model: m\npacking: {packing}\n{PRICES}", encoding="utf-8")
    return ("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml")


def turn_outputs(folder: Path) -> None:
    """The same texts with words in another order: new outputs, as long as those in the ledger."""
    rows = [json.loads(line) for line in (folder / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    turned = [row | {"output": " ".join(reversed(row["output"].split()))} for row in rows]
    (folder / "outputs.jsonl").write_text("\n".join(map(json.dumps, turned)), encoding="utf-8")


def dry_run(gradebook, *words):
    finished = gradebook("evaluate", *words, "--dry-run", "--json")
    assert finished.code == 0, finished.err
    return finished.json


# -------- batched criteria
@pytest.mark.parametrize(("packing", "requests"), [(1, 5), (2, 3), (4, 2)])
def test_requests_of_batched_criteria_are_counted_as_they_are_sent(gradebook, tmp_path, packing, requests):
    planned = dry_run(gradebook, *write_packed(tmp_path, packing))
    assert planned["request_count"] == requests * COUNT
    assert [row["open_count"] for row in planned["criteria"]] == [COUNT] * 5


@pytest.mark.nightly
@pytest.mark.slow
def test_a_dry_run_of_batched_criteria_equals_the_run_s_requests_and_cost(evaluate, gradebook, judge, packed, tmp_path):
    turn_outputs(tmp_path)
    planned = dry_run(gradebook, *packed)
    asked_count, sent_tokens = judge.request_count, judge.prompt_tokens
    finished = evaluate(*packed)
    assert judge.request_count - asked_count == planned["request_count"] == 2 * COUNT
    prompt_tokens = sum(row["prompt_tokens"] for row in planned["criteria"])
    assert prompt_tokens == pytest.approx(judge.prompt_tokens - sent_tokens, rel=0.01)
    assert planned["cost_usd"] == pytest.approx(finished.json["cost_usd"], rel=0.03)


def test_a_dry_run_of_batched_criteria_equals_stage_costs_by_criterion(gradebook, packed, tmp_path):
    costs = json.loads((tmp_path / "published.json").read_text(encoding="utf-8"))["costs"]
    asked = {row["criterion_id"]: row["request_count"] for row in costs if row["criterion_id"]}
    planned = dry_run(gradebook, *packed, "--lake", "sqlite:new/catalog.sqlite")
    assert {row["criterion_id"]: row["request_count"] for row in planned["criteria"]} == asked
    assert list(asked.values()).count(COUNT) == 2  # the first criteria of the requests


# -------- cascades
CASCADE = "cascade: {first: cheap.yaml, then: dear.yaml, when: {disagreement: true}}"


def write_cascade(folder: Path, first: LoopbackJudge, then: LoopbackJudge) -> tuple[str, ...]:
    write_outputs(folder / "outputs.jsonl", count=CASES)
    write_rubric(folder / "rubric.yaml")
    (folder / "judge.yaml").write_text(CASCADE, encoding="utf-8")
    for name, server, settings in (("cheap", first, "replicates: 2"), ("dear", then, "")):
        written = f"model: {name}\nbase_url: {server.base_url}\n{PRICES}{settings}\n"
        (folder / f"{name}.yaml").write_text(written, encoding="utf-8")
    return ("outputs.jsonl", "--rubric", "rubric.yaml", "--judge")


@pytest.mark.nightly
@pytest.mark.slow
def test_the_plan_of_a_cascade_is_exact_after_the_first_judge_has_replied(evaluate, gradebook, other, first_asked):
    (row, _) = dry_run(gradebook, *first_asked, "judge.yaml")["criteria"]
    assert evaluate(*first_asked, "judge.yaml").code == 0
    assert (row["request_count"], row["at_most_count"]) == (other.request_count, 0)
    assert 0 < other.request_count < COUNT
    after = dry_run(gradebook, *first_asked, "judge.yaml")
    assert (after["request_count"], after["cost_usd"]) == (0, 0)
    assert after["replayed_count"] == 2 * COUNT + other.request_count


@pytest.mark.nightly
@pytest.mark.slow
def test_stored_replies_of_the_second_judge_count_only_if_the_first_is_unsure(evaluate, gradebook, first_asked):
    assert evaluate(*first_asked, "dear.yaml").code == 0  # so all its opinions are in the ledger
    planned = dry_run(gradebook, *first_asked, "judge.yaml")
    finished = evaluate(*first_asked, "judge.yaml")
    (used,) = query(gradebook, f"select count(*) n from opinions where run_id = '{finished.json['run_id']}'")
    assert 2 * COUNT < used["n"] < 3 * COUNT
    (spent,) = (row for row in finished.json["costs"] if row["criterion_id"] == "clarity")
    assert (planned["replayed_count"], spent["replayed_count"]) == (used["n"], used["n"])


# -------- leftovers of a killed run
def test_replies_in_the_journal_of_a_killed_run_count_as_stored(gradebook, packed, tmp_path):
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    (run_id,) = (row["run_id"] for row in query(gradebook, "select distinct run_id from judgments"))
    rows = [row for table in run_judgments(lake, run_id) for row in table.to_pylist()]
    with connect(lake) as connection:
        connection.execute("delete from judgments")
    with Journal(lake.journal_folder, run_id) as journal:
        journal.append(*[row for row in rows if row["criterion_id"] != "whole"])
    planned = dry_run(gradebook, *packed)
    assert (planned["request_count"], planned["replayed_count"]) == (COUNT, 4 * COUNT)
    assert list(lake.journal_folder.glob("*.jsonl")) == [journal.path]


# -------- feedback texts
@pytest.mark.nightly
def test_the_suggested_budget_includes_feedback_texts(evaluate, gradebook, judge, packed):
    told = {}
    for more in ((), ("--feedback", "llm")):
        refused = evaluate(*packed, "--budget-usd", "0.003", *more, "--lake", f"sqlite:{len(more)}/catalog.sqlite")
        assert refused.code == 3
        told[len(more)] = float(refused.err.partition("the same command with --budget-usd ")[2].split()[0])
    assert told[2] > 1.2 * told[0]
