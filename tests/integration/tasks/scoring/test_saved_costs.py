"""What a run saves is the earlier cost of the judgments that it uses again, in whatever method and table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.published.summary import cost_words
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.claims_judge import write_claims
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.preference_judge import write_preference
from tests.support.published_runs import publish
from tests.support.samples import judged_criteria, write_lines

CASES = 5
HEAD = "id: r\nversion: 1.0.0\ncriteria:\n"
TWINS = HEAD + judged_criteria("warm") + judged_criteria("warm").replace("id: warm", "id: warm_too")
ASKED = HEAD + "- {{id: asked, description: Is it so?, weight: 1, method: {{{}}}}}\n"
Writer = Callable[[dict[str, Any]], str]


@pytest.mark.parametrize(
    ("rubric", "settings", "writer", "judgment_count"),
    [
        (ASKED.format("type: claims"), "", write_claims, 2),  # found once, verified once
        *matrix(
            [
                (TWINS, "", None, 1),  # two criteria of one text
                (HEAD + judged_criteria("warm", "brief"), "packing: 2", None, 2),
                (TWINS, "replicates: 2", None, 2),
                (ASKED.format("type: preference, against: old"), "", write_preference, 2),  # in both orders
            ]
        ),
    ],
    ids=["claims", "judge", "batched criteria", "replicates", "preference"],
)
def test_a_judgment_that_several_verdicts_use_again_is_saved_once(
    judge: LoopbackJudge, tmp_path: Path, rubric: str, settings: str, writer: Writer | None, judgment_count: int
):
    judge.writer = writer
    (tmp_path / "rubric.yaml").write_text(rubric, encoding="utf-8")
    (tmp_path / "judge.yaml").write_text(f"model: gpt-4o-mini\n{settings}\n", encoding="utf-8")
    case = {"prompt": "Say it", "context": ["The sky is blue."]}
    outputs = write_lines(
        tmp_path / "outputs.jsonl",
        [
            {"case_id": f"c{number}", "model": model, "output": text, **case}
            for number in range(CASES)
            for model, text in (("m", "The sky is blue. *"), ("old", "The sky is blue."))
            if model == "m" or "preference" in rubric
        ],
    )
    judged_by = str(tmp_path / "judge.yaml")
    publish(outputs, tmp_path / "rubric.yaml", run_id="first", judge=judged_by)
    again = publish(outputs, tmp_path / "rubric.yaml", run_id="again", judge=judged_by, has_report=True)
    address = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    rescore_run(RescoreRequest("again", str(tmp_path / "rubric.yaml"), address, run_id="rescored"))
    lake = find_lake(address)
    with connect(lake, read_only=True) as connection:
        judged = connection.execute("select count(*), sum(cost_usd) from judgments").fetchone()
        saved = dict(connection.execute("select run_id, sum(saved_usd) from stage_costs group by run_id").fetchall())
    assert judged is not None and judged[0] == judgment_count
    assert saved == pytest.approx({"first": 0, "again": judged[1], "rescored": judged[1]})
    words = price_words(saved["again"])
    assert f"which saved {words}." in cost_words(again.costs)
    assert words in RunFolder.below(lake.root, "again").report_file.read_text(encoding="utf-8")
