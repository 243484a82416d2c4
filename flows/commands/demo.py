"""The command `gradebook demo`: evaluation of a shipped example, three SQL queries, and a report."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import LakeOption, PrefectOption
from gradebook.flows.display.summary import show_summary
from gradebook.flows.display.tables import write_rows
from gradebook.flows.display.terminal import notes, people, say
from gradebook.flows.evaluate_here import evaluate_here, report_of
from gradebook.tasks.datasets.traces.names import CHAT
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.runs.request import EvaluationRequest

DEMO_LAKE = "sqlite:demo-lake/catalog.sqlite"


@dataclass(frozen=True, slots=True)
class _Example:
    """A shipped example. about: what it is, said first; rubric: a file of its folder, or a shipped rubric."""

    about: str
    folder: str
    outputs: str
    rubric: str
    ratings: str | None = None
    trace_format: str | None = None

    def request(self, folder: Path, lake: str) -> EvaluationRequest:
        rubric = folder / self.rubric
        return EvaluationRequest(
            outputs=str(folder / self.outputs),
            rubric=str(rubric) if rubric.exists() else self.rubric,
            judge=f"replay:{folder / 'replies.jsonl'}",
            ratings=None if self.ratings is None else str(folder / self.ratings),
            trace_format=self.trace_format,
            lake=lake,
            trigger="demo",
        )


_REPLIES = _Example(
    "84 support replies of two models", "support_replies", "outputs.jsonl", "rubric.yaml", "ratings.csv"
)
_AGENTS = _Example("30 runs of two agents", "agent_runs", "runs.jsonl", "agent_task", trace_format=CHAT)


def demo(
    lake: LakeOption = DEMO_LAKE,
    agents: Annotated[
        bool, typer.Option("--agents", help="evaluate the runs of two agents, with their steps, instead")
    ] = False,
    prefect: PrefectOption = None,
) -> None:
    """Evaluate the shipped example of support replies, or of agents' runs; no key needed.

    The judge's replies are recorded. The lake is created in the folder demo-lake.

    \b
    gradebook demo
    gradebook demo --agents
    """
    example = _AGENTS if agents else _REPLIES
    folder = Path(str(resources.files("gradebook.examples"))) / example.folder
    if folder.is_relative_to(Path.cwd()):  # in a checkout: keep its absolute path out of the tables
        folder = folder.relative_to(Path.cwd())
    notes.print(f"{example.about}; the judge's replies are recorded and were invented for the demo.")
    request = example.request(folder, lake)
    summary = evaluate_here(request, prefect=prefect)
    show_summary(summary, None, find_lake(lake).words())
    for question, query in _questions(folder / "questions.sql"):
        people.print()
        say(question)
        typer.echo(f"\n{query}\n")
        write_rows(run_query(find_lake(lake), query), "table", None)
    typer.echo(f"\nreport: {report_of(request, summary)}")
    typer.echo(f'your own query:\n  gradebook sql --lake {lake} "from latest_run_scores"')


def _questions(path: Path) -> list[tuple[str, str]]:
    """Pairs of a question, from the comment before a select, and the select."""
    found = []
    for block in path.read_text(encoding="utf-8").split(";"):
        lines = block.strip().splitlines()
        words = " ".join(line.removeprefix("--").strip() for line in lines if line.startswith("--"))
        query = "\n".join(line for line in lines if not line.startswith("--"))
        if query:
            found.append((words, query))
    return found
