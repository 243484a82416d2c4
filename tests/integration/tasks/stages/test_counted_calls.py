"""Dry runs, cost previews and runs have the same number of requests for the same outputs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.cost_preview import preview_change
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import complete_run
from gradebook.tasks.stages.preview import preview_run
from gradebook.tasks.stages.submit import Stages
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.published_runs import NOW, publish
from tests.support.samples import judged_criteria, write_lines

HEAD = "id: many\nversion: {version}\ncriteria:\n- {{id: short, description: Short., method: CHECK}}\n".replace(
    "CHECK", "{{type: check, check: length_words, settings: {{max: 9}}}}"
)
OWN = {"id": "own", "description": "Does it greet?", "method": {"type": "judge"}}
RATINGS = "case_id,model,criterion_id,rater,level_id\nc1,small,warm,anna,good\nc2,large,warm,anna,bad\n"
# 4 cases by 2 models, so 8 outputs; 3 judged criteria: 24 requests, one per criterion and output
CASES, MODELS = 4, ("small", "large")


@dataclass(frozen=True)
class Asked:
    """Judge settings and their number of requests.

    has_own: two outputs have a per-case criterion. of_people: `warm` prefers ratings.
    """

    judge: str
    calls: int
    of_people: bool = False
    has_own: bool = False
    feedback: str | None = None


WAYS = {
    "plain": Asked("model: m\n", 24),
    "ratings": Asked("model: m\n", 22, of_people=True),  # two of `warm` are rated
    "batched criteria": Asked("model: m\npacking: 2\n", 16),  # two requests per output
    "batched criteria with ratings": Asked(
        "model: m\npacking: 3\n", 8, of_people=True
    ),  # no request is rated completely
    "replicates": Asked("model: m\nreplicates: 3\n", 72),
    "panel": Asked("panel: [a, b]\n", 48),
    "panel with replicates and ratings": Asked("panel: [a, more.yaml]\n", 66, of_people=True),  # 22 and twice 22
    "per-case criteria": Asked("model: m\n", 26, has_own=True),
    "feedback": Asked("model: m\n", 34, feedback="llm"),  # a text for each of 8 outputs and 2 models
    "all": Asked("panel: [a, more.yaml]\n", 82, of_people=True, has_own=True, feedback="llm"),  # 66 + 3 x 2 + 10
}


def write_inputs(folder: Path, way: Asked) -> None:
    rows = [
        {"case_id": f"c{case}", "model": model, "prompt": "Why?", "output": f"{model} {case}."}
        | ({"criteria": [OWN]} if way.has_own and case == 0 else {})
        for case in range(CASES)
        for model in MODELS
    ]
    write_lines(folder / "outputs.jsonl", rows)
    (folder / "ratings.csv").write_text(RATINGS)
    of_first, of_second = judged_criteria("warm"), judged_criteria("warm", "clear", "sound")
    for version, criteria in (("1.0.0", of_first), ("2.0.0", of_second)):
        asked = criteria.replace("{type: judge}", "{type: judge, prefer: human}", 1) if way.of_people else criteria
        (folder / f"{version}.yaml").write_text(HEAD.format(version=version) + asked)
    (folder / "replies.jsonl").write_text("")


def write_judge(folder: Path, way: Asked) -> str:
    (folder / "more.yaml").write_text("model: c\nreplicates: 2\n")
    (folder / "judge.yaml").write_text(way.judge)
    return str(folder / "judge.yaml")


Published = Callable[[Asked], Path]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Folder of a lake with the run `first` of the same outputs with another rubric; equal ones are created once."""

    @cache
    def publish_first(way: Asked) -> Path:
        folder = tmp_path_factory.mktemp("counted")
        write_inputs(folder, way)
        ratings = str(folder / "ratings.csv") if way.of_people else None
        asked = {"judge": f"replay:{folder}/replies.jsonl", "feedback": way.feedback, "ratings": ratings}
        publish(folder / "outputs.jsonl", folder / "1.0.0.yaml", run_id="first", **asked)
        return folder

    return lambda way: publish_first(replace(way, judge="", calls=0))


def second_request(folder: Path, judge: str, way: Asked, **asked: Any) -> EvaluationRequest:
    """Request for the outputs with the second rubric; ratings are in the lake, or in the file."""
    lake, outputs, rubric = (str(folder / name) for name in ("lake/catalog.sqlite", "outputs.jsonl", "2.0.0.yaml"))
    return EvaluationRequest(outputs, rubric, judge=judge, lake=f"sqlite:{lake}", feedback=way.feedback, **asked)


@pytest.mark.parametrize("name", ["all", *matrix(name for name in WAYS if name != "all")])
def test_a_dry_run_and_the_price_of_a_change_count_the_same_calls(published: Published, tmp_path: Path, name: str):
    way = WAYS[name]
    folder, judge = published(way), write_judge(tmp_path, way)
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    change = preview_change(lake, "first", str(folder / "2.0.0.yaml"), judge)
    _, planned = preview_run(second_request(folder, judge, way))
    ratings = str(folder / "ratings.csv") if way.of_people else None
    _, with_file = preview_run(second_request(folder, judge, way, ratings=ratings))
    counts = [plan.request_count for plan in (planned, with_file, change.rest, change.later)]
    assert counts == [way.calls] * 4
    assert change.rest.criteria == planned.criteria


@pytest.mark.nightly
def test_the_run_sends_as_many_requests_as_the_dry_run_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    way = WAYS["all"]
    write_inputs(tmp_path, way)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        ratings = str(tmp_path / "ratings.csv")
        request = second_request(tmp_path, write_judge(tmp_path, way), way, ratings=ratings)
        _, planned = preview_run(request)
        with opened_run(request, NOW) as run:
            complete_run(run, Stages())
    assert judge.request_count == planned.request_count == way.calls
