"""Bad days from the first command to the last: a lost endpoint, and hostile outputs."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.gullible_judge import obey
from tests.support.hostile_outputs import EVERY_HOSTILE_OUTPUT
from tests.support.samples import query, write_outputs, write_rubric

MARKUP = '</script><hostile-mark onclick="alert(1)">look</hostile-mark><img src=x onerror=alert(1)>'
KEPT = "select count(*) as n, count(distinct request_key) as keys from judgments"
JUDGE = "{{model: gpt-4o-mini, base_url: {base_url}, patience_s: 0.2, max_in_flight: 2}}"


def test_a_lost_endpoint_exits_with_3_and_a_rerun_pays_only_for_the_rest(evaluate, gradebook, judge, tmp_path):
    (tmp_path / "judge.yaml").write_text(JUDGE.format(base_url=judge.base_url))
    outputs, rubric = write_outputs(tmp_path / "o.jsonl"), write_rubric(tmp_path / "r.yaml")
    command = (outputs, "--rubric", rubric, "--judge", "judge.yaml")
    judge.faults = ["fine"] * 5 + ["drop"] * 999
    stopped = evaluate(*command)
    assert stopped.code == 3
    assert f"{judge.base_url}: no request was answered for 0.2 s" in stopped.err
    assert "finished judgments are stored, and the same command resumes" in stopped.err
    assert query(gradebook, KEPT) == [{"n": 5, "keys": 5}]
    judge.faults, asked = [], judge.request_count
    finished = evaluate(*command)
    assert (finished.code, judge.request_count - asked) == (0, 7)
    assert query(gradebook, KEPT) == [{"n": 12, "keys": 12}]


class Tags(HTMLParser):
    """Collector of the tags and attributes of a page, in order."""

    def __init__(self):
        super().__init__()
        self.met = set()

    def handle_starttag(self, tag, attrs):
        self.met |= {tag, *(name for name, _ in attrs)}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    known = [
        text.encode("utf-8", "replace").decode() for text in EVERY_HOSTILE_OUTPUT
    ]  # reading refuses lone surrogates
    texts = [f"{text[:20_000]} {MARKUP}" for text in known[::8][:40]]
    rows = [
        {"case_id": f"c{place}", "model": MARKUP, "prompt": text, "output": text} for place, text in enumerate(texts)
    ]
    path = tmp_path / "hostile.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.nightly
def test_forty_hostile_outputs_are_judged_published_and_shown_without_harm(gradebook, judge, hostile, tmp_path):
    judge.writer = lambda body: obey(body).replace("As ordered.", f"As ordered. {MARKUP}".replace('"', '\\"'))
    rubric = write_rubric(tmp_path / "r.yaml")
    finished = gradebook("evaluate", hostile, "--rubric", rubric, "--judge", "gpt-4o-mini", "--run-id", "night")
    assert finished.code == 0, finished.err
    verdicts = query(gradebook, "select level_id, status, rationale from verdicts where criterion_id = 'clarity'")
    assert len(verdicts) == 40
    assert {row["level_id"] for row in verdicts} == {"unclear", "clear", None}
    page = (tmp_path / "lake/runs/night/report.html").read_text()
    assert "hostile-mark" in page
    tags = Tags()
    tags.feed(page)
    assert not tags.met & {"hostile-mark", "onclick", "onerror"}
