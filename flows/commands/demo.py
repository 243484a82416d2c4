"""The command `gradebook demo`: evaluation of a shipped example, three SQL queries, and a report."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import LakeOption, PrefectOption
from gradebook.flows.display.summary import show_summary
from gradebook.flows.display.tables import write_rows
from gradebook.flows.display.terminal import say, stderr, stdout
from gradebook.flows.evaluate_here import evaluate_here, report_of
from gradebook.flows.run import uses_prefect
from gradebook.tasks.datasets.traces import CHAT
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.runs.request import EvaluationRequest

DEMO_LAKE = "sqlite:demo-lake/catalog.sqlite"
_CHECKED = """
select coalesce(engine, 'sql') as engine, count(*) as checks, count(*) filter (is_met) as met
from quality_results where run_id = '{run_id}' group by all order by all
"""
FLOW_RUN = """
This was a Prefect flow run: the log above has its tasks, and its artifacts are short tables of the scores and costs.
  gradebook demo --no-prefect    the same in this process, without Prefect, in seconds
  prefect server start           a server that keeps the runs; `export PREFECT_API_URL=http://127.0.0.1:4200/api`, and
                                 every evaluation is a flow run on its pages"""
DIRECT = """
This ran in this process, without Prefect.
  gradebook demo --prefect       the same as a Prefect flow run, with its tasks, quality checks and artifacts"""


@dataclass(frozen=True, slots=True)
class _Example:
    """Shipped example. about: description, printed first; rubric: a file of its folder, or a shipped rubric."""

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
    """Evaluate the shipped example; no key needed.

    The judge's replies are recorded. The lake is created in the folder demo-lake. --prefect shows the same as a Prefect
    flow run.

    \b
    gradebook demo
    gradebook demo --prefect
    gradebook demo --agents
    """
    example = _AGENTS if agents else _REPLIES
    folder = Path(str(resources.files("gradebook.examples"))) / example.folder
    if folder.is_relative_to(Path.cwd()):  # in a checkout: keep its absolute path out of the tables
        folder = folder.relative_to(Path.cwd())
    stderr.print(f"{example.about}; the judge's replies are recorded and were invented for the demo.")
    request, is_flow = example.request(folder, lake), uses_prefect(prefect, is_verbose=True)
    summary = evaluate_here(request, prefect=is_flow, is_verbose=is_flow, is_shown=not is_flow)
    show_summary(summary, None, find_lake(lake).words())
    for question, query in _questions(folder / "questions.sql"):
        stdout.print()
        say(question)
        typer.echo(f"\n{query}\n")
        write_rows(run_query(find_lake(lake), query), "table", None)
    _show_checks(lake, summary.run_id)
    typer.echo(f"\nreport: {report_of(request, summary)}")
    typer.echo(f"all pages of it in the browser:\n  gradebook view --open --lake {lake}")
    typer.echo(f'your own query:\n  gradebook sql --lake {lake} "from latest_run_scores"')
    typer.echo(FLOW_RUN if is_flow else DIRECT)


def _show_checks(lake: str, run_id: str) -> None:
    """Print the count of data-quality rules that the run's tables met."""
    rows = run_query(find_lake(lake), _CHECKED.format(run_id=run_id)).to_pylist()
    counts = ", ".join(f"{row['engine']} {row['met']} of {row['checks']}" for row in rows)
    stdout.print(f"\ndata quality, rules met by engine: {counts} (the table quality_results)", highlight=False)


def _questions(path: Path) -> list[tuple[str, str]]:
    """Pairs (question, select); a question is the comment before its select."""
    pairs = []
    for block in path.read_text(encoding="utf-8").split(";"):
        lines = block.strip().splitlines()
        question = " ".join(line.removeprefix("--").strip() for line in lines if line.startswith("--"))
        query = "\n".join(line for line in lines if not line.startswith("--"))
        if query:
            pairs.append((question, query))
    return pairs
