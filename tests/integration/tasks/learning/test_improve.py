"""`gradebook judge improve` and candidates of `judge compare`: a judge with a known fault over HTTP, a real lake."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.model.errors import BudgetReached, InputError
from gradebook.rubrics.prompts.guidance import with_examples
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.learning.compare import FrontierRequest, compare_candidates
from gradebook.tasks.learning.improve import Improvement, ImproveRequest, open_improvement, write_improved
from gradebook.tasks.rubric_store.versions import list_versions
from tests.support.blind_judge import CRITERION, GOOD, HEAD, IDLE, BlindJudge, is_useful, outputs, write_lines
from tests.support.published_runs import publish
from tests.support.rated_lake import add_rows

QUESTIONS = {
    "useful": "Does the reply help the customer?",
    "few": "Does the reply help a new customer?",
    "queued": "Does the reply help an old customer?",
    "disputed": "Does the reply help an angry customer?",
}
RUBRIC = HEAD + "".join(CRITERION.format(name=name, question=question) for name, question in QUESTIONS.items())
CASES = 50


@pytest.fixture(scope="module")
def judge() -> Iterator[BlindJudge]:
    with BlindJudge() as server:
        yield server


@pytest.fixture(scope="module")
def folder(judge: BlindJudge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a published run `night` and ratings of its outputs."""
    found = tmp_path_factory.mktemp("improve")
    rows = outputs(CASES)
    write_lines(found / "outputs.jsonl", rows)
    (found / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    prices = "prices: {input_usd: 1.0, output_usd: 4.0}"
    (found / "judge.yaml").write_text(f"model: blind\nbase_url: {judge.base_url}\n{prices}\n", encoding="utf-8")
    publish(found / "outputs.jsonl", found / "rubric.yaml", judge=str(found / "judge.yaml"), run_id="night")

    def rate(connection: Any, _version: int) -> None:
        stored = read_rows(connection, "select output_id, case_id, model, output from outputs order by output_id")
        add_rows(connection, {"ratings": [*rating_rows(stored)]})

    commit(lake_of(found), "rate", rate)
    return found


def lake_of(folder: Path) -> Lake:
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def rating_rows(stored: Any) -> Iterator[dict[str, Any]]:
    """Ratings: of `useful` by one careful rater, of `disputed` by two who guess, of `queued` by a queue alone."""
    for place, row in enumerate(stored):
        sides = {"useful": [("lea", 0.04)], "disputed": [("max", 0.5), ("ole", 0.5)], "queued": [("lea", 0.04)]}
        sides |= {"few": [("lea", 0.04)]} if place < 8 else {}
        for criterion_id, raters in sides.items():
            for rater, noise in raters:
                is_good = is_useful(row, f"{rater}{criterion_id}", noise)
                rating = {"output_id": row["output_id"], "criterion_id": criterion_id, "rater": rater}
                rating |= {"level_id": "good" if is_good else "bad", "score": float(is_good), "source": "file"}
                rating |= {"rated_at": datetime(2026, 11, 20, tzinfo=UTC)}
                rating |= {"selection": "uncertain" if criterion_id == "queued" else "random"}
                yield rating | ({} if is_good else {"notes": "Nothing about when."})


def request(folder: Path, **changes: Any) -> ImproveRequest:
    return replace(ImproveRequest("night", "useful", str(folder / "judge.yaml")), **changes)


def improve(folder: Path, **changes: Any) -> Improvement:
    return open_improvement(lake_of(folder), request(folder, **changes)).search()


def refusal(folder: Path, **changes: Any) -> str:
    with pytest.raises(InputError) as refused:
        open_improvement(lake_of(folder), request(folder, **changes))
    return str(refused.value)


# -------- what ratings can't teach
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"criterion": "few"}, "criterion few: found 8 rated outputs in "),
        ({"criterion": "queued"}, "criterion queued: found 100 rated outputs, each chosen by a queue (uncertain)"),
        ({"criterion": "disputed"}, "raters who agree with each other at kappa"),
        ({"criterion": "tone"}, "--criterion: found 'tone'"),
        ({"run_id": "nobody"}, "run nobody: found no such run"),
        ({"judge": "replay:nowhere.jsonl"}, "nowhere.jsonl"),
        ({"judge": "another.yaml"}, "differs in model"),
    ],
)
def test_what_cannot_teach_is_refused_by_name_before_anything_is_asked(
    folder: Path, judge: BlindJudge, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
):
    monkeypatch.chdir(folder)
    Path("another.yaml").write_text(f"model: other\nbase_url: {judge.base_url}\n", encoding="utf-8")
    asked_count = judge.request_count
    assert words in refusal(folder, **changes)
    assert judge.request_count == asked_count


def test_power_and_price_are_known_before_anything_is_asked(folder: Path, judge: BlindJudge):
    asked_count = judge.request_count
    opened = open_improvement(lake_of(folder), request(folder, criterion=None))
    (preview,) = opened.previews
    assert set(opened.skipped) == {"few", "queued", "disputed"}
    assert (preview.power.n, preview.most_questions) == (2 * CASES, 6 * CASES)
    assert preview.power.detectable == pytest.approx(0.22, abs=0.05)
    assert preview.usd == pytest.approx(0.16, abs=0.05)
    assert judge.request_count == asked_count


# -------- the search
def test_guidance_that_repairs_a_known_fault_is_accepted_written_and_free_the_second_time(
    folder: Path, judge: BlindJudge, tmp_path: Path
):
    asked_count = judge.request_count
    found = improve(folder)
    (outcome,) = found.outcomes
    assert outcome.is_accepted
    assert outcome.change.low is not None
    assert outcome.change.low > 0.15
    assert outcome.question_count <= 6 * CASES
    assert judge.request_count - asked_count <= outcome.question_count + 2
    assert found.spent_usd > 0
    path = write_improved(found, tmp_path / "new.yaml")
    assert path is not None
    rubric = parse_rubric(path.read_text(encoding="utf-8"), "new.yaml")
    assert (rubric.version, rubric.criteria[0].method.guidance) == ("1.0.1", GOOD["guidance"])
    provenance = rubric.metadata["improved"]["useful"]
    assert (provenance["run"], provenance["ratings"]["count"], provenance["candidate"]) == ("night", 100, "guidance 1")
    assert [row["rubric_version"] for row in list_versions(lake_of(folder))] == ["1.0.0"]  # a person registers it
    with pytest.raises(InputError, match="which exists"):
        write_improved(found, path)

    asked_count = judge.request_count
    again = improve(folder)
    assert judge.request_count == asked_count
    assert (again.spent_usd, again.outcomes[0].change) == (0, outcome.change)
    assert json.loads(json.dumps(again.as_json()))["new_version"] == "reply@1.0.1"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("proposals", "words"),
    [
        ([IDLE, IDLE], "it repeats today's question or another candidate"),
        ([GOOD | {"guidance": "Always answer good."}], "it gives an order to the judge"),
        (
            [GOOD | {"guidance": "A reply with 'we will see' does not help."}],
            "words of a",
        ),
        ([{"nonsense": 1}], "the proposal can't be read"),
        ([], None),
    ],
)
def test_proposals_of_no_use_are_dropped_by_name_and_nothing_is_accepted(
    folder: Path, judge: BlindJudge, monkeypatch: pytest.MonkeyPatch, proposals: list[Any], words: str | None
):
    monkeypatch.setattr(judge, "proposals", proposals)
    (folder / "writer.yaml").write_text(
        f"model: writer{abs(hash(str(proposals)))}\nbase_url: {judge.base_url}\n"
        "prices: {input_usd: 1.0, output_usd: 4.0}\n",
        encoding="utf-8",
    )
    found = improve(folder, proposer=str(folder / "writer.yaml"))
    (outcome,) = found.outcomes
    assert not outcome.is_accepted
    assert (found.rubric, write_improved(found, None)) == (None, None)
    reasons = [tried.reason or "" for tried in outcome.tried if tried.name.startswith("guidance")]
    assert any(words in reason for reason in reasons) if words else not reasons


def test_a_budget_is_a_hard_cap_and_the_same_command_goes_on(folder: Path, judge: BlindJudge, monkeypatch: Any):
    monkeypatch.setattr(judge, "proposals", [GOOD | {"guidance": "A reply without any day on it fails."}, IDLE])
    (folder / "capped.yaml").write_text(
        f"model: capped\nbase_url: {judge.base_url}\nprices: {{input_usd: 1.0, output_usd: 4.0}}\n", encoding="utf-8"
    )
    capped = {"proposer": str(folder / "capped.yaml")}
    with pytest.raises(BudgetReached, match="budget"):
        improve(folder, budget_usd=0.04, **capped)
    asked_count = judge.request_count
    found = improve(folder, **capped)
    assert found.outcomes[0].is_accepted
    assert judge.request_count - asked_count < found.outcomes[0].question_count


# -------- examples, and candidates against their price
def test_a_run_refuses_examples_of_the_cases_that_it_evaluates(folder: Path):
    rubric = parse_rubric(RUBRIC, "rubric.yaml")
    example = {"output": "We will see.", "level": "bad", "case_id": "c007"}
    other = {"output": "On Monday.", "level": "good", "case_id": "elsewhere"}
    base = rubric.criteria[0]
    method = type(base.method)
    shown = [type(base.method).model_validate({"type": "judge", "examples": [example, other]}).examples]
    changed = with_examples(base, shown[0])
    assert changed.method_as(method).examples[0].case_id == "c007"
    path = folder / "examples.yaml"
    text = rubric_yaml(rubric.model_copy(update={"version": "1.1.0", "criteria": (changed,)}))
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"useful: method.examples: found examples from 1 case of these outputs \(c007\)"
    ):
        publish(folder / "outputs.jsonl", path, judge=str(folder / "judge.yaml"), run_id="own")


def test_candidates_are_compared_at_their_price_and_the_cheapest_that_is_close_is_named(
    folder: Path, judge: BlindJudge, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    rubric = HEAD.replace("1.0.0", "1.2.0") + CRITERION.format(name="useful", question=QUESTIONS["useful"])
    guided = rubric.replace("{type: judge}", f"{{type: judge, guidance: {GOOD['guidance']}}}")
    Path("guided.yaml").write_text(guided, encoding="utf-8")
    dear = f"model: dear\nbase_url: {judge.base_url}\nprices: {{input_usd: 9.0, output_usd: 40.0}}\n"
    Path("dear.yaml").write_text(dear, encoding="utf-8")
    found = compare_candidates(
        lake_of(folder), FrontierRequest(("night",), ("guided.yaml",), ("judge.yaml", "dear.yaml"), "useful")
    )
    rows = {row.name: row for row in found.rows}
    assert [*rows] == ["judge.yaml, guided.yaml", "dear.yaml, guided.yaml", "blind, reply 1.0.0 (run night)"]
    assert [row.is_chosen for row in rows.values()] == [True, False, False]
    assert [row.is_on_frontier for row in rows.values()] == [True, False, True]
    cheap, dear_row, today = rows.values()
    assert cheap.usd_per_1000 is not None
    assert dear_row.usd_per_1000 == pytest.approx(9.5 * cheap.usd_per_1000, rel=0.1)
    assert today.behind is not None
    assert today.behind.high is not None
    assert today.behind.high < 0
    with pytest.raises(InputError, match="--margin"):
        compare_candidates(lake_of(folder), FrontierRequest(("night",), margin=1.5))
