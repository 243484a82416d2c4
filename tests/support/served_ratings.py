"""A published run of ten outputs, one of six pairs, one of an agent, and the rating pages of a session over one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from starlette.testclient import TestClient

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.ratings.rating_session import RatingSession
from gradebook.tasks.serving.rating_page import rating_app
from gradebook.tasks.system.listeners import Tokens
from tests.support.new_lakes import write_copy
from tests.support.published_runs import publish
from tests.support.rated_lake import TONE
from tests.support.samples import write_lines
from tests.support.scored_lake import make_lake, write_scores

RUN = "run-1"
HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202egnp.exe"
STEPS_RUBRIC = """
id: stepped
version: 1.0.0
taxonomy:
  types: [{id: tool, subtypes: [{id: wrong_tool}, {id: wrong_arguments}]}, {id: fact}]
  severities: {minor: 1, major: 10}
criteria:
  - {id: steps, description: Is the step right?, method: {type: ratings, unit: step}}
  - id: tone
    description: Is it kind?
    method: {type: ratings}
    levels: [{id: bad, score: 0}, {id: good, score: 1}]
"""
TWO_RUBRIC = """
id: stepped
version: 1.0.0
criteria:
  - {id: steps, description: Is the step right?, method: {type: ratings, unit: step}}
  - id: safe
    description: Is the step safe?
    method: {type: ratings, unit: step, penalties: {minor: 5, major: 50, fact/major: 60}}
    levels: [{id: unsafe, score: 0}, {id: fine, score: 1}]
"""


@dataclass
class Served:
    """Pages of a session, as a browser with a cookie sees them."""

    lake: Lake
    session: RatingSession
    client: TestClient
    tokens: Tokens

    @classmethod
    def of(cls, lake: Lake, session: RatingSession) -> Self:
        """Pages of an open session."""
        tokens = Tokens()
        app = rating_app(session, tokens, (HOST,), lambda text: None)
        return cls(lake, session, TestClient(app, base_url=ORIGIN, follow_redirects=False), tokens)

    def enter(self, rater: str) -> None:
        """Follow the rater's link."""
        self.client.cookies.clear()
        page = self.client.get(f"/t/{self.tokens.issue(rater)}")
        assert page.status_code == 200
        self.client.cookies.set("gradebook_rater", page.cookies["gradebook_rater"])

    def submit(self, position: int, level: str, version: int = 0, **fields: str) -> int:
        """Submit a sheet; returns the status."""
        sent = {"level.tone": level, "version": str(version), "action": "submit", **fields}
        return self.client.post(f"/sheet/{position}", data=sent, headers={"origin": ORIGIN}).status_code


def rated_run(folder: Path) -> Lake:
    """A lake of one run whose judge said tone 0 and 1 in turn; its texts are hostile."""
    write_copy(folder, _make_run)
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def _make_run(folder: Path) -> None:
    lake = make_lake(folder)
    rows = [{"case_id": f"c{place}", "output_id": f"o{place}", "scores": {"tone": place % 2}} for place in range(10)]
    write_scores(lake, RUN, TONE, rows)

    def tell(connection: Any, _version: int) -> None:
        connection.execute("update outputs set prompt = 'Be kind.', output = ?", [HOSTILE])
        connection.execute("update verdicts set method = 'judge'")

    commit(lake, "texts", tell)


def paired_run(folder: Path) -> Lake:
    """Six cases answered by two models, the first with one text; the judge scores large 1 and small 0."""
    lake = make_lake(folder)
    rows = [
        {
            "case_id": f"c{case}",
            "model": model,
            "output_id": f"{model}{case}",
            "scores": {"tone": int(model == "large")},
        }
        for case in range(6)
        for model in ("large", "small")
    ]
    write_scores(lake, RUN, TONE, rows)

    def tell(connection: Any, _version: int) -> None:
        connection.execute("update outputs set prompt = 'Be kind.', output = ? || output_id", [HOSTILE])
        connection.execute("update outputs set output = 'same' where case_id = 'c0'")
        connection.execute("update verdicts set method = 'judge'")

    commit(lake, "texts", tell)
    return lake


def stepped_run(folder: Path, text: str = STEPS_RUBRIC) -> Lake:
    """A published run of one output of an agent, with four steps whose texts are hostile."""
    rubric = folder / "rubric.yaml"
    rubric.write_text(text, encoding="utf-8")
    steps = [
        {"kind": "user", "output": "Book a train."},
        {"kind": "tool", "name": HOSTILE, "input": {"to": "Bonn"}, "output": HOSTILE},
        {"kind": "tool", "name": "maps", "error": "no such place"},
        {"kind": "model", "output": "Done."},
    ]
    row = {"case_id": "c1", "model": "m", "prompt": "Book a train.", "output": "Done.", "steps": steps}
    publish(write_lines(folder / "outputs.jsonl", [row]), rubric, run_id=RUN)
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


CLAIMS_RUBRIC = """
id: grounded
version: 1.0.0
criteria:
  - {id: groundedness, description: Does the context bear it out?, method: {type: claims}}
"""


def claimed_run(folder: Path) -> Lake:
    """A published run of two outputs, in which a judge found four claims and an opinion; the texts are hostile."""
    rubric = folder / "rubric.yaml"
    rubric.write_text(CLAIMS_RUBRIC, encoding="utf-8")
    said = ["The shop is open. The moon is cheese.", f"Returns take 60 days. {HOSTILE}"]
    rows = [
        {"case_id": f"c{place}", "model": "m", "output": text, "context": ["The shop is open. Returns take 60 days."]}
        for place, text in enumerate(said)
    ]
    publish(write_lines(folder / "outputs.jsonl", rows), rubric, run_id=RUN)
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    claims = [
        ("c0", 0, 0, "The shop is open.", "verifiable", "supported", "The shop is open."),
        ("c0", 1, 1, "The moon is cheese.", "verifiable", "not_in_source", None),
        ("c1", 0, 0, "Returns take 60 days.", "verifiable", "contradicted", "Returns take 60 days."),
        ("c1", 1, 1, HOSTILE, "verifiable", "unverified", None),
        ("c1", 2, 1, "It is nice.", "opinion", None, None),
    ]

    def tell(connection: Any, _version: int) -> None:
        for case_id, index, sentence, claim, kind, verdict, quote in claims:
            connection.execute(
                "insert into claims by name select ? as run_id, output_id, 'groundedness' as criterion_id, "
                "'output' as side, ? as claim_index, ? as sentence, 0 as start, 1 as stop, ? as span, ? as claim, "
                "? as kind, ? as verdict, ? as quote from outputs where case_id = ?",
                [RUN, index, sentence, claim, claim, kind, verdict, quote, case_id],
            )

    commit(lake, "claims", tell)
    return lake
