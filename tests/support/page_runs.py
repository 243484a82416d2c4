"""Runs with pages for browser tests: the demo, a later night compared with it, an unscored run and a hostile run.

The first three are in one lake, the hostile run in another; each lake has a home page and rubric pages.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.reporting.site import write_site
from tests.support.hostile_run import write_hostile_run
from tests.support.made_once import made_once
from tests.support.published_runs import publish

DEMO = Path(__file__).parents[2] / "examples" / "support_replies"
CHANGED_EVERY = 3  # the later night replaces every third output of the smaller model by that of the larger one
REPORTS = ("demo", "later", "unrated", "hostile")
HOSTILE = ("hostile", "hostile home", "hostile rubric")
PAGES = (*REPORTS[1:], "home", "rubric", *HOSTILE[1:])  # `later` has all parts of the demo
UNRATED = """
id: unrated
version: 1.0.0
criteria:
  - id: kindness
    description: Is it kind?
    method: {type: ratings}
    levels: [{id: unkind, score: 0, description: No.}, {id: kind, score: 1, description: Yes.}]
"""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reported:
    """Published runs and the pages of PAGES. lake: of the runs that are not hostile."""

    pages: Mapping[str, Path]
    lake: Lake


def report_runs(factory: pytest.TempPathFactory) -> Reported:
    """Publish the runs and write the home pages of both lakes."""
    return _found_runs(made_once(factory, "reported", _make_runs))


def _make_runs(folder: Path) -> None:
    shown = folder / "shown"
    shown.mkdir()
    write_hostile_run(folder / "hostile")
    shutil.copy(DEMO / "outputs.jsonl", shown / "outputs.jsonl")
    judged = {"judge": f"replay:{DEMO / 'replies.jsonl'}", "ratings": str(DEMO / "ratings.csv")}
    publish(shown / "outputs.jsonl", DEMO / "rubric.yaml", run_id="demo", **judged)
    _write_later(shown)
    judged["judge"] = f"replay:{shown / 'replies.jsonl'}"
    publish(shown / "later.jsonl", DEMO / "rubric.yaml", run_id="later", baseline="demo", **judged)
    _write_unrated(shown)
    publish(shown / "unrated.jsonl", shown / "unrated.yaml", run_id="unrated", allow_unscored=True)
    for home in _homes(folder):
        write_site(_lake_in(home), home / "site")


def _found_runs(folder: Path) -> Reported:
    shown, hostile = _homes(folder)
    pages = {name: shown / "site" / "runs" / f"{name}.html" for name in REPORTS[:3]}
    pages |= {"home": shown / "site" / "index.html", "rubric": shown / "site" / "rubrics" / "support_replies.html"}
    pages["hostile"] = hostile / "site" / "runs" / "hostile.html"
    pages["hostile home"] = hostile / "site" / "index.html"
    pages["hostile rubric"] = hostile / "site" / "rubrics" / "hostile.html"
    return Reported(pages, _lake_in(shown))


def _homes(folder: Path) -> tuple[Path, Path]:
    return folder / "shown", folder / "hostile"


def _lake_in(home: Path) -> Lake:
    return find_lake(f"sqlite:{home}/lake/catalog.sqlite")


def _write_later(folder: Path) -> None:
    """Write the demo's outputs and replies of a later night, with some outputs of the smaller model improved.

    Its metadata says which tickets were reopened: those that the judge calls wrong, so the report has a weak spot.
    """
    outputs, replies = (_read(DEMO / name) for name in ("outputs.jsonl", "replies.jsonl"))
    cases = sorted({row["case_id"] for row in outputs})[::CHANGED_EVERY]
    later = _improved(replies, cases)
    wrong = {(row["case_id"], row["model"]) for row in later if row["level"] == "wrong"}
    told = [
        row | {"metadata": row.get("metadata", {}) | {"reopened": (row["case_id"], row["model"]) in wrong}}
        for row in _improved(outputs, cases)
    ]
    _write(folder / "later.jsonl", told)
    _write(folder / "replies.jsonl", later)


def _improved(rows: list[Row], cases: list[str]) -> list[Row]:
    """Rows with those of the smaller model replaced by those of the larger one in these cases."""
    unchanged = [row for row in rows if row["model"] == "support-large" or row["case_id"] not in cases]
    taken = [row | {"model": "support-small"} for row in rows if row["model"] == "support-large"]
    return [*unchanged, *(row for row in taken if row["case_id"] in cases)]


def _write_unrated(folder: Path) -> None:
    _write(folder / "unrated.jsonl", [{"case_id": f"c{n}", "model": "m", "output": f"Text {n}."} for n in range(3)])
    (folder / "unrated.yaml").write_text(UNRATED, encoding="utf-8")


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
