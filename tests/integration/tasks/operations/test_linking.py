"""Two versions of a rubric on the same outputs."""

from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.operations.anchors import AnchorChoice, make_anchors
from gradebook.tasks.operations.linking import LinkRequest, link_rubrics
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.report_source import opened_source
from gradebook.tasks.reporting.sections.history import read_points
from tests.support.loopback_judge import LoopbackJudge, level_reply
from tests.support.published_runs import NOW, publish
from tests.support.samples import write_outputs, write_rubric


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Runs of 40 outputs by versions 1.0.0 and 2.0.0, whose length check is stricter, with anchors of the first."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        judge.writer = lambda body: level_reply(body, "It is understood at first reading.")
        outputs, rubric = write_outputs(tmp_path / "outputs.jsonl", 40, ("m",)), write_rubric(tmp_path / "one.yaml")
        publish(outputs, rubric, run_id="one", judge="gpt-4o-mini")
        lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
        make_anchors(lake, AnchorChoice("one", 40, "set"), NOW)
        text = rubric.read_text(encoding="utf-8").replace("1.0.0", "2.0.0").replace("max: 50", "max: 3")
        (tmp_path / "two.yaml").write_text(text, encoding="utf-8")
        asked = judge.request_count
        rows = link_rubrics(lake, LinkRequest("short_answer", str(tmp_path / "two.yaml"), "set", "gpt-4o-mini"), NOW)
        assert judge.request_count == asked  # the criterion's text is the same: nothing is asked again
        assert {row["scope_id"]: row["offset_mean"] for row in rows} == {"": -0.5, "clarity": 0, "length": -1}
        publish(outputs, tmp_path / "two.yaml", run_id="two", judge="gpt-4o-mini")
    return lake


@pytest.mark.nightly
def test_a_link_is_shown_where_a_trend_crosses_the_versions_and_changes_no_run(lake):
    with connect(lake, read_only=True) as connection:
        before = connection.execute("select run_id, mean from run_scores order by all").fetchall()
    assert before == [("one", 1.0), ("two", 0.5)]
    with opened_source(lake, summarise(lake, "two")) as source:
        points = read_points(source)
    (last,) = [point for point in points.values() if point.run_id == "two"]
    assert last.linked_mean == pytest.approx(0.5)  # 1.0 by version 1.0.0, less 0.5
    assert last.changes["rubric"].startswith("the rubric from 1.0.0 to 2.0.0 (linked: -0.500, ")
    assert not last.is_joined


@pytest.mark.nightly
def test_what_cannot_be_linked_is_refused(lake, tmp_path):
    with pytest.raises(InputError, match="two versions of one rubric"):
        link_rubrics(lake, LinkRequest("short_answer@1.0.0", "short_answer@1.0.0", "set"), NOW)
    make_anchors(lake, AnchorChoice("one", 10, "few"), NOW)
    versions = ("short_answer@1.0.0", "short_answer@2.0.0")
    with pytest.raises(InputError, match=r"under 30 cases with a score by both versions \(0 and 0 of 10 outputs"):
        link_rubrics(lake, LinkRequest(*versions, "few"), NOW)
