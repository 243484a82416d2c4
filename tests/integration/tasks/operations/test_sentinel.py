"""Nights of the sentinel: what is asked, what it says of the judge, and what a bad night leaves behind."""

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.tasks.comparing.sides import describe_judges, read_side
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ledger.spending import read_spending
from gradebook.tasks.operations.anchors import AnchorChoice, WatchRequest, choose_outputs, make_anchors
from gradebook.tasks.operations.sentinel import Watch, price_watch, watch_judge
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.report_source import opened_source
from gradebook.tasks.reporting.sections.trust import Sign, anchor_findings
from tests.support.law_over import law_over
from tests.support.loopback_judge import LoopbackJudge, level_reply
from tests.support.made_once import made_once
from tests.support.published_runs import publish
from tests.support.samples import write_outputs

NOW = datetime(2026, 11, 20, tzinfo=UTC)
RUBRIC = """
id: kind
version: 1.0.0
criteria:
  - id: kind
    description: Is it kind?
    method: {type: judge}
    levels: [{id: bad, score: 0, description: No.}, {id: good, score: 1, description: "Yes."}]
"""
JUDGE = """
model: stub
base_url: {url}
max_attempts: 1
patience_s: 0
prices: {{input_usd: 1, output_usd: 1}}
"""


@dataclass
class Watched:
    """A lake with 30 anchors, and a judge that calls every answer whose number is in `bad` bad."""

    lake: Lake
    judge: LoopbackJudge
    request: WatchRequest
    folder: Path
    bad: set[int] = field(default_factory=set)

    def on(self, day: int, **changed: Any) -> Watch:
        """The night of a day of November."""
        request = replace(self.request, night=date(2026, 11, day), **changed)
        return watch_judge(self.lake, request, datetime.now(UTC))

    def ask(self, select: str) -> list[Any]:
        with connect(self.lake, read_only=True) as connection:
            return connection.execute(select).fetchall()


def answered_kindly(body: dict[str, Any], bad: frozenset[int] | set[int] = frozenset()) -> str:
    """Reply of a judge that finds all answers kind but those of these numbers."""
    case = json.loads(body["messages"][-1]["content"].splitlines()[1])
    is_bad = any(f"Answer {number} of" in case["output"] for number in bad)
    return level_reply(body, "No." if is_bad else "Yes.")


def make_lake(folder: Path) -> None:
    """A published run of 30 outputs, all of them anchors, and the first night, the reference."""
    with LoopbackJudge() as judge, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "key")
        judge.writer = answered_kindly
        outputs = write_outputs(folder / "outputs.jsonl", 30, ("small",))
        (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
        (folder / "judge.yaml").write_text(JUDGE.format(url=judge.base_url), encoding="utf-8")
        publish(outputs, folder / "rubric.yaml", run_id="first", judge=str(folder / "judge.yaml"))
        lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
        make_anchors(lake, AnchorChoice("first", 30), NOW)
        assert price_watch(lake, request_of(folder))["question_count"] == 60  # 30 anchors, 2 replies each
        watch_judge(lake, request_of(folder), NOW)
        assert judge.request_count == 30 + 60


def request_of(folder: Path) -> WatchRequest:
    return WatchRequest("kind", str(folder / "judge.yaml"), date(2026, 11, 1), per_night=20, reference=2)


@pytest.fixture
def watched(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    shutil.copytree(made_once(tmp_path_factory, "watched", make_lake), tmp_path, dirs_exist_ok=True)
    with LoopbackJudge() as judge:
        (tmp_path / "judge.yaml").write_text(JUDGE.format(url=judge.base_url), encoding="utf-8")
        lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
        found = Watched(lake, judge, request_of(tmp_path), tmp_path)
        judge.writer = lambda body: answered_kindly(body, found.bad)
        yield found


def test_a_judge_that_turns_strict_is_found_and_a_new_epoch_begins(watched):
    nights = [watched.on(day) for day in (1, 2, 3)]
    assert [night.rows[0]["state"] for night in nights] == ["reference", "steady", "steady"]
    assert watched.judge.request_count == 20 + 20
    watched.bad = set(range(0, 30, 2))
    changed = watched.on(4)
    assert changed.is_drifted
    assert changed.rows[0]["mean_gap"] == pytest.approx(-1 / 2, abs=0.2)
    assert changed.epoch == 2
    assert changed.sentence.startswith("the judge stub changed: it scores the same outputs differently on kind (-0.")
    again = watched.on(5)
    assert (again.rows[0]["state"], again.epoch, again.rows[0]["n"]) == ("reference", 2, 30)
    assert watched.on(6).rows[0]["state"] == "steady"  # as strict as in its own reference


@pytest.mark.nightly
def test_runs_of_two_epochs_are_not_compared_as_equals(watched):
    outputs = watched.folder / "outputs.jsonl"
    publish(outputs, watched.folder / "rubric.yaml", run_id="second", judge=watched.request.judge)
    watched.bad = set(range(30))
    assert watched.on(2).is_drifted
    publish(outputs, watched.folder / "rubric.yaml", run_id="third", judge=watched.request.judge)
    with connect(watched.lake, read_only=True) as connection:
        second, third = (read_side(connection, watched.lake, name).judge for name in ("second", "third"))
        history = connection.execute("select run_id, is_same_judge from score_history order by version").fetchall()
    assert describe_judges(second, third) == ("stub changed, as its anchors showed: judge epoch 1 in A and 2 in B")
    assert history == [("first", None), ("second", True), ("third", False)]


@pytest.mark.nightly
def test_the_report_says_what_the_anchors_showed(watched):
    assert watched.on(2).rows[0]["state"] == "steady"
    outputs = watched.folder / "outputs.jsonl"
    publish(outputs, watched.folder / "rubric.yaml", run_id="steady", judge=watched.request.judge)
    watched.bad = set(range(30))
    watched.on(3)
    publish(outputs, watched.folder / "rubric.yaml", run_id="drifted", judge=watched.request.judge)
    found = {}
    for run_id in ("steady", "drifted"):
        with opened_source(watched.lake, summarise(watched.lake, run_id)) as source:
            (found[run_id],) = anchor_findings(source)
    assert found["steady"].sign == Sign.FINE
    assert found["steady"].words.startswith("No sign that stub changed, on the anchors kind, night 2026-11-02")
    assert found["drifted"].sign == Sign.BAD
    assert found["drifted"].words.startswith(
        "stub scores the same outputs differently than before on kind, on the anchors"
    )


@pytest.mark.nightly
def test_another_answering_model_begins_an_epoch_whatever_it_says(watched):
    watched.judge.model_suffix = "-2027"
    found = watched.on(2)
    assert (found.rows[0]["state"], found.rows[0]["model_returned"], found.epoch) == ("new_model", "stub-2027", 2)
    assert watched.on(3).rows[0]["n"] == 30  # the rest of the reference
    assert watched.on(4).rows[0]["state"] == "steady"


@pytest.mark.nightly
def test_a_new_fingerprint_of_the_same_model_begins_an_epoch(watched):
    watched.judge.system_fingerprint = "fp_1"
    states = [watched.on(day).rows[0]["state"] for day in (2, 3)]
    assert states == ["steady", "steady"]  # replies had none before: nothing changed as far as is known
    watched.judge.system_fingerprint = None
    assert watched.on(4).rows[0]["state"] == "steady"
    watched.judge.system_fingerprint = "fp_2"
    found = watched.on(5)
    assert (found.rows[0]["state"], found.epoch) == ("new_model", 2)
    assert "is answered by stub-2026 (fp_2): judge epoch 2 begins" in found.sentence
    fingerprints = "select distinct system_fingerprint from judgments where run_id like 'anchors%' order by all"
    assert watched.ask(fingerprints) == [("fp_1",), ("fp_2",), (None,)]


def test_what_is_asked_again_is_paid_for_and_shown_apart(watched):
    spending = read_spending(watched.lake)
    (anchors, score) = sorted(spending.parts["stage"], key=lambda each: each.part)
    assert (anchors.part, anchors.judgment_count, score.judgment_count) == ("anchors", 60, 30)
    (cost,) = watched.ask("select sum(cost_usd) from judge_drift")[0]
    assert anchors.billed_usd == pytest.approx(cost)
    assert cost > 0
    asked = watched.judge.request_count
    with pytest.raises(UnfinishedError):
        watched.on(2, budget_usd=1e-9)
    assert watched.judge.request_count == asked


def test_a_cascade_is_billed_for_the_judges_that_were_asked(watched):
    def written(body: dict[str, Any]) -> str:
        is_first_at_a_loss = "seed" not in body and "Answer 3 of" in json.dumps(body)
        return "?" if is_first_at_a_loss else answered_kindly(body)

    watched.judge.writer = written
    (watched.folder / "then.yaml").write_text(JUDGE.format(url=watched.judge.base_url) + "seed: 1\n", encoding="utf-8")
    cascade = watched.folder / "cascade.yaml"
    cascade.write_text("cascade: {first: judge.yaml, then: then.yaml}", encoding="utf-8")
    cost_usd = watched.on(2, judge=str(cascade), reference=1).cost_usd
    assert cost_usd == pytest.approx((watched.judge.prompt_tokens + watched.judge.completion_tokens) / 1e6)
    assert sum("seed" in body for body in watched.judge.bodies) == 1


# -------- bad days
def gone(watched: Watched) -> None:
    watched.judge.faults = ["401"] * 40


def bad_night_then_good(watched: Watched, spoil: Callable[[Watched], None]) -> tuple[int, Watch]:
    """Spoil the second night; returns what it stored, and the third night."""
    spoil(watched)
    with pytest.raises(UnfinishedError):
        watched.on(2)
    watched.judge.faults = []
    (count,) = watched.ask("select count(*) from judge_drift where night = '2026-11-02'")[0]
    return count, watched.on(3)


def test_a_judge_that_is_gone_leaves_a_night_without_rows(watched):
    count, next_night = bad_night_then_good(watched, gone)
    assert (count, next_night.rows[0]["state"]) == (0, "steady")


def test_a_night_twice_asks_nothing_again_and_two_at_once_store_one(watched):
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(watched.on, (2, 2))
    assert one.rows[0]["e_value"] == other.rows[0]["e_value"]
    assert watched.ask("select count(*) from anchor_verdicts where night = '2026-11-02'") == [(20,)]
    asked = watched.judge.request_count
    assert watched.on(2).rows[0]["n"] == 20
    assert watched.judge.request_count == asked


def test_a_clock_set_back_asks_nothing(watched):
    watched.on(5)
    asked = watched.judge.request_count
    with pytest.raises(InputError, match="2026-11-04, before 2026-11-05, the last night of the judge"):
        watched.on(4)
    assert watched.judge.request_count == asked


def test_an_anchor_whose_output_changed_is_left_out_and_counted(watched):

    def change(connection: Any, _version: int) -> None:
        connection.execute("update outputs set output = 'other' where case_id = 'c3'")
        connection.execute("delete from outputs where case_id = 'c4'")

    commit(watched.lake, "a hand in the data", change)
    found = watched.on(2, per_night=30)
    assert found.rows[0]["n"] == 28
    assert found.notes == ("2 outputs left out: no longer in the lake, or changed",)


@pytest.mark.nightly
def test_anchors_of_an_old_rubric_version_are_asked_by_that_version(watched):
    text = RUBRIC.replace("1.0.0", "1.1.0").replace("Is it kind?", "Is it very kind?")
    (watched.folder / "rubric.yaml").write_text(text, encoding="utf-8")
    publish(watched.folder / "outputs.jsonl", watched.folder / "rubric.yaml", run_id="new", judge=watched.request.judge)
    watched.judge.bodies.clear()
    watched.on(2)
    assert watched.judge.bodies
    assert all("Is it kind?" in json.dumps(body) for body in watched.judge.bodies)


# -------- choice
def test_strata_get_equal_numbers_as_far_as_there_are_enough():
    rows = [{"output_id": f"o{place}", "level": "good" if place < 90 else "bad"} for place in range(100)]
    chosen = choose_outputs(rows, ("level",), 30, np.random.default_rng(1))
    assert sum(int(name[1:]) >= 90 for name in chosen) == 10
    assert len(set(chosen)) == 30


@law_over(
    "choice, words",
    [
        (AnchorChoice("first", 0), "--n: found 0"),
        (AnchorChoice("first", 5, "a/b"), "--name: found 'a/b'"),
        (AnchorChoice("first", 5, "x", strata=("tone",)), "--stratify: found 'tone'"),
        (AnchorChoice("first", 5, "kind"), "--name: found the anchor set 'kind', which exists"),
        (AnchorChoice("first", 5, "x", is_rated=True), "without an output that people rated"),
        (AnchorChoice("none", 5), "found no 'none'"),
    ],
)
def test_a_wrong_choice_is_named(choice, words, watched):
    with pytest.raises(InputError, match=words):
        make_anchors(watched.lake, choice, NOW)
