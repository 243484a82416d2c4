"""Page of two runs beside each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.routing import Route

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.tables import Table, pick_columns, table_from
from gradebook.tasks.comparing.attribution import ChangedCase
from gradebook.tasks.comparing.compare import Comparison, ModelComparison, compare_runs
from gradebook.tasks.comparing.figures import worst_first
from gradebook.tasks.comparing.sentences import COMPARED, direction_words, outcome_word, pair_sentences, row_name
from gradebook.tasks.comparing.verdict import RunVerdict, comparison_verdict
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.published.runs import refuse_unknown_run
from gradebook.tasks.viewing.cases import CaseFilters
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
    """Comparison of two models: its sentences and its table, regressions first.

    cases: those that changed most, as (heading, cases with the address of each).
    """

    name: str
    sentences: tuple[str, ...]
    table: Table
    cases: tuple[tuple[str, tuple[tuple[ChangedCase, str], ...]], ...]


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
    parts = tuple(_part(pair, run_a, run_b) for pair in comparison.models)
    return ComparisonPage(comparison, comparison_verdict(comparison), parts)


def _part(pair: ModelComparison, run_a: str, run_b: str) -> PairPart:
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
    return PairPart(pair.name, tuple(pair_sentences(pair.rows)), table, tuple(_changed_cases(pair, run_a, run_b)))


def _changed_cases(
    pair: ModelComparison, run_a: str, run_b: str
) -> Iterator[tuple[str, tuple[tuple[ChangedCase, str], ...]]]:
    """Cases that lost and gained most, each with the address of its two answers beside each other."""
    if pair.explanation is None:
        return
    for heading, cases in (
        ("Cases that lost most", pair.explanation.lost_most),
        ("Cases that gained most", pair.explanation.gained_most),
    ):
        if cases:
            yield heading, tuple((case, _address(case, run_a, run_b)) for case in cases)


def _address(case: ChangedCase, run_a: str, run_b: str) -> str:
    answers = urlencode({"a": f"{run_a}/{case.output_a}", "b": f"{run_b}/{case.output_b}"})
    return f"{CaseFilters().case_address(run_b, case.case_id)}?{answers}"
