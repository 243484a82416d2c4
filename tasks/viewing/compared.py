"""Page of two runs beside each other."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.tables import Table, pick_columns, table_from
from gradebook.tasks.comparing.compare import Comparison, ModelComparison, compare_runs
from gradebook.tasks.comparing.figures import worst_first
from gradebook.tasks.comparing.sentences import COMPARED, direction_words, outcome_word, pair_sentences, row_name
from gradebook.tasks.comparing.verdict import RunVerdict, comparison_verdict
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.published.runs import refuse_unknown_run
from gradebook.tasks.viewing.frame import Frame


def routes(frame: Frame) -> list[Route]:
    """Address of the page: /compare?a=RUN&b=RUN."""

    def compare(request: Request) -> str:
        run_a, run_b = (request.query_params.get(side, "") for side in ("a", "b"))
        page = frame.at_version(read_comparison_page, run_a, run_b)
        return frame.render("compare.html.j2", f"{run_b} against {run_a} · gradebook", page=page)

    return [frame.route("/compare", compare)]


@dataclass(frozen=True, slots=True)
class PairPart:
    """Comparison of two models: its sentences and its table, regressions first."""

    name: str
    sentences: tuple[str, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """Contents of the page of a comparison."""

    comparison: Comparison
    verdict: RunVerdict
    pairs: tuple[PairPart, ...]


def read_comparison_page(lake: Lake, run_a: str, run_b: str) -> ComparisonPage:
    """Compare two published runs. Raises `InputError` for an unknown run, or nothing to pair."""
    if not (run_a and run_b):
        raise InputError("compare", "one run or none", "a run A and a run B")
    for run_id in (run_a, run_b):
        refuse_unknown_run(lake, run_id, "run")
    comparison = compare_runs(lake, run_a, run_b)
    return ComparisonPage(comparison, comparison_verdict(comparison), tuple(map(_part, comparison.models)))


def _part(pair: ModelComparison) -> PairPart:
    rows = worst_first(pair.rows)
    flagged = (index for index, row in enumerate(rows) if row.is_regression)
    headings = ("B - A", "95% interval", "A", "B", "p adjusted", *direction_words(rows), "Pairs")
    table = table_from(
        pair.name,
        {"Criterion": row_name, "Beyond chance": outcome_word},
        pick_columns(COMPARED, *headings),
        rows,
        flagged,
    )
    return PairPart(pair.name, tuple(pair_sentences(pair.rows)), table)
