"""The arithmetic of docs/scaling.md, worked out again from the inputs that it names."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/scaling.md"


def figures() -> dict[str, float]:
    """The rows of the page's tables whose second cell is a number."""
    rows = re.findall(r"^\| ([^|]+) \| ([\d,.]+) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: float(number.replace(",", "")) for name, number in rows}


def judgment_usd(given: dict[str, float], cached: float) -> float:
    plain = (given["prompt tokens a judgment"] - cached) * given["dollars a million prompt tokens"]
    completion = given["completion tokens a judgment"] * given["dollars a million completion tokens"]
    return (plain + cached * given["dollars a million cached tokens"] + completion) / 1e6


def worked_out(given: dict[str, float]) -> dict[str, float]:
    outputs, checked = given["outputs"], given["outputs"] * given["checks"]
    judgments, a_second = outputs * given["judged criteria"], given["judgments a second and process"]
    shards, requests = outputs / given["rows a shard"], a_second * given["judging processes"]
    tokens = given["prompt tokens a judgment"] + given["completion tokens a judgment"]
    return {
        "verdicts": checked + judgments,
        "judgments": judgments,
        "shards": shards,
        "minutes for the checks, on one machine of 2 cores": checked / given["verdicts of checks a second"] / 60,
        "hours for the judge, one process": judgments / a_second / 3600,
        "hours for the judge, all processes": judgments / requests / 3600,
        "requests a second at the judge": requests,
        "million tokens a minute at the judge": requests * tokens * 60 / 1e6,
        "dollars": judgments * judgment_usd(given, given["of these cached"]),
        "dollars without a cache": judgments * judgment_usd(given, 0),
        "GB of verdicts": (checked + judgments) * given["bytes a verdict of a check"] / 1e9,
        "GB of output scores": outputs * given["bytes an output's scores"] / 1e9,
        "MB of catalog": shards * given["bytes of catalog a shard"] / 1e6,
    }


def test_each_figure_of_the_night_follows_from_its_inputs():
    given = figures()
    expected = worked_out(given)
    assert {name: given[name] for name in expected} == pytest.approx(expected, rel=0.03)
