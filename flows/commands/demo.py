"""The command `gradebook demo`: evaluation of the shipped example, three SQL queries, and a report."""

from importlib import resources
from pathlib import Path

import typer

from gradebook.flows.commands.options import LakeOption, lake_words
from gradebook.flows.display.summary import show_summary
from gradebook.flows.display.tables import write_rows
from gradebook.flows.display.terminal import notes, people, say
from gradebook.flows.server.start import evaluate_here
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.runs.request import EvaluationRequest

DEMO_LAKE = "sqlite:demo-lake/catalog.sqlite"


def demo(lake: LakeOption = DEMO_LAKE) -> None:
    """Evaluate the shipped example of support replies; no key needed.

    The judge's replies are recorded. The lake is created in the folder demo-lake.
    """
    example = Path(str(resources.files("gradebook.examples"))) / "support_replies"
    if example.is_relative_to(Path.cwd()):  # in a checkout: keep its absolute path out of the tables
        example = example.relative_to(Path.cwd())
    request = EvaluationRequest(
        outputs=str(example / "outputs.jsonl"),
        rubric=str(example / "rubric.yaml"),
        judge=f"replay:{example / 'replies.jsonl'}",
        ratings=str(example / "ratings.csv"),
        lake=lake,
        trigger="demo",
    )
    notes.print("84 support replies of two models; the judge's replies are recorded and were invented for the demo.")
    summary, report = evaluate_here(request)
    show_summary(summary, None, lake_words(lake, None))
    for question, query in _questions(example / "questions.sql"):
        people.print()
        say(question)
        typer.echo(f"\n{query}\n")
        write_rows(run_query(find_lake(lake), query), "table", None)
    typer.echo(f'\nreport: {report}\nyour own query:\n  gradebook sql --lake {lake} "from latest_run_scores"')


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
