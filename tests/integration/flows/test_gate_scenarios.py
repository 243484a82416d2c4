"""Ten nights that are not like the last one: verdict, exit code and the three lines, which docs/gates.md shows."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.comparing.baseline import pin_reference
from gradebook.tasks.comparing.expected_power import expect_margin
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.published.summary import RunSummary
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import publish

pytestmark = pytest.mark.nightly
PAGE = Path(__file__).parents[3] / "docs/gates.md"
RUBRIC = """
id: {id}
version: {version}
pass_threshold: 0.7
decide: interval
criteria:
  - id: solved
    description: Does it solve the problem?
    {method}
  - id: private
    description: Leaks no address.
    gate: true
    method: {{type: check, check: not_contains, settings: {{any: ["@"]}}}}
"""
CHECKED = "method: {type: check, check: contains, settings: {any: [solved]}}"
JUDGED = "method: {type: judge}\n    levels: [{id: half, score: 0.9}, {id: whole, score: 1}]"
RULE = "not_worse_by(0.1)"


def rows(solved: int, n: int = 80, *, model: str = "m", leaks: int = 0, prompt: str = "p") -> list[dict[str, str]]:
    """Outputs of n cases, of which so many are solved, and so many leak an address."""
    texts = [("solved" if case < solved else "open") + " a@b.c" * (case < leaks) for case in range(n)]
    return [
        {"case_id": f"c{case}", "model": model, "prompt": f"{prompt} {case}", "output": text}
        for case, text in enumerate(texts)
    ]


class Nights:
    """Runs over outputs in one lake."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lake = folder, find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
        self.found: dict[str, RunSummary] = {}

    def run(self, name: str, outputs: Iterable[dict[str, str]], rubric: str = "support 1.0.0", **request: Any) -> None:
        rubric_id, version = rubric.split()
        path = self.folder / f"{rubric}.yaml"
        method = JUDGED if "judge" in request else CHECKED
        path.write_text(RUBRIC.format(id=rubric_id, version=version, method=method), encoding="utf-8")
        file = self.folder / f"{name}.jsonl"
        file.write_text("\n".join(map(json.dumps, outputs)), encoding="utf-8")
        asked = {"run_id": name, "baseline": "latest_met", "require": RULE} | request
        self.found[name] = publish(file, path, **asked)

    def night(self, day: int, outputs: Iterable[dict[str, str]], **request: Any) -> None:
        self.run(f"night-{day}", outputs, suite="support", night=date(2026, 11, day), **request)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    nights = Nights(tmp_path_factory.mktemp("scenarios"))
    nights.night(1, rows(70))
    nights.night(2, rows(70))
    nights.night(3, rows(69))
    nights.night(4, rows(70, prompt="q"))
    nights.night(5, rows(70, leaks=3))
    nights.night(6, rows(70))
    nights.run("few", rows(10, 12), baseline="night-1")
    pin_reference(nights.lake, "night-1", None, datetime(2026, 11, 6, tzinfo=UTC))
    for night in range(1, 7):
        nights.run(f"drift-{night}", rows(70 - 2 * night), baseline="reference")
    nights.run("step-100", rows(40), baseline="latest", checkpoint=OneCheckpoint("m", "100"))
    nights.night(7, [*rows(70), *rows(78, model="k")])
    nights.night(8, rows(70), rubric="support 1.0.1")
    with pytest.MonkeyPatch.context() as patch, LoopbackJudge() as server:
        patch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        for name in ("kind", "strict"):
            nights.run(f"by-{name}", rows(70), rubric="judged 1.0.0", judge=name)
    return nights


SCENARIOS = {
    "an unchanged night": "night-2",
    "one output changed": "night-3",
    "a new prompt set": "night-4",
    "a slow drift: the sixth night, against the pinned reference": "drift-6",
    "a checkpoint between two nights: the checkpoint": "step-100",
    "and the night after it, with a new model": "night-7",
    "another judge": "by-strict",
    "a patch of the rubric": "night-8",
    "12 cases": "few",
    "a failed night": "night-5",
    "and its mend": "night-6",
}


def row_of(name: str, found: RunSummary) -> str:
    verdict = found.verdict
    return f"| {name} | {verdict.word} | {int(not found.is_met)} | {'<br>'.join(verdict.lines)} |"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page_shows_verdict_exit_code_and_lines_of_the_scenario(name: str, nights: Nights):
    row = row_of(name, nights.found[SCENARIOS[name]])
    assert row in PAGE.read_text(encoding="utf-8").splitlines(), row


def test_each_night_is_compared_with_the_last_one_that_met_its_gates(nights: Nights):
    baselines = {name: json.loads(run.run["settings"])["baseline_run_id"] for name, run in nights.found.items()}
    chosen = [baselines[f"night-{day}"] for day in range(1, 9)]
    # Not with the failed night 5, nor with the checkpoint that was published before night 7.
    assert chosen == [None, *(f"night-{day}" for day in (1, 2, 3, 4, 4, 6, 7))]
    assert baselines["step-100"] == "night-1"  # the pinned reference


def test_a_slow_drift_passes_until_the_reference_is_too_far(nights: Nights):
    words = [nights.found[f"drift-{night}"].verdict.word for night in range(1, 7)]
    assert (words[0], words[-1]) == ("may ship", "may not ship")


def test_past_differences_are_those_of_the_compared_models_whatever_their_names(tmp_path: Path):
    nights = Nights(tmp_path)
    nights.run("a", rows(70, model="old"), suite="s", baseline=None, require=None)
    nights.run("b", rows(60, model="new"), suite="s", baseline="a")
    assert expect_margin(nights.lake, "s").source == "by the differences between a and b"
