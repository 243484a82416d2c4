"""The page about a run: one HTML file that asks for nothing from anywhere."""

from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from tasks.comparing.rows import worst_first
from tasks.files import write_text
from tasks.lake import Lake, connect
from tasks.lake_tables import narrow_to_outputs
from tasks.requirements import read_rows
from tasks.summary import RunSummary
from tasks.wording import p_words, rate_words, score_words, signed_words, span_words, sqrt_words, usd_words

WORST_COUNT = 10
_WORST = """
select output_id from output_scores where run_id = ?
order by len(failed_gates) desc, score nulls last, output_id limit ?
"""
_WORST_IN_FULL = """
with reasons as (
    select
        output_id,
        list(struct_pack(criterion_id, level_id, score, reason, evidence, rationale)
            order by score nulls first, criterion_id) as verdicts
    from verdicts
    group by output_id
)

select worst.* exclude (run_id), outputs.prompt, outputs.output, reasons.verdicts, told.feedback
from output_scores as worst
    inner join outputs on worst.output_id = outputs.output_id
    inner join reasons on worst.output_id = reasons.output_id
    inner join output_feedback as told on worst.run_id = told.run_id and worst.output_id = told.output_id
order by len(worst.failed_gates) desc, worst.score nulls last, worst.case_id, worst.model
"""


def write_report(lake: Lake, summary: RunSummary, path: Path) -> Path:
    """Write the report of a published run and return its path."""
    page = _template().render(
        summary=summary, run=summary.run, criteria=_by_criterion(summary), worst=_worst_outputs(lake, summary.run_id)
    )
    write_text(path, page)
    return path


def _template() -> jinja2.Template:
    text = resources.files("pages").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["score"] = score_words
    environment.filters["signed"] = signed_words
    environment.filters["p"] = p_words
    environment.globals["span"] = span_words
    environment.globals["worst_first"] = worst_first
    environment.filters["sd"] = sqrt_words
    environment.filters["rate"] = rate_words
    environment.filters["usd"] = usd_words
    return environment.from_string(text)


def _worst_outputs(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    with connect(lake, read_only=True) as connection:
        worst = [row["output_id"] for row in read_rows(connection, _WORST, run_id, WORST_COUNT)]
        narrow_to_outputs(connection, run_id, worst)
        return list(read_rows(connection, _WORST_IN_FULL))


def _by_criterion(summary: RunSummary) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in summary.criteria:
        grouped.setdefault(row["criterion_id"], []).append(row)
    return grouped
