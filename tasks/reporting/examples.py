"""Outputs to read: the worst of the run, each with its verdicts and why."""

from dataclasses import dataclass

from tasks.lake_tables import narrow_to_outputs
from tasks.reporting.source import ReportSource
from tasks.requirements import Row

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


@dataclass(frozen=True, slots=True)
class ExampleContents:
    """The outputs shown, the worst first."""

    worst: tuple[Row, ...]


def read_examples(source: ReportSource) -> ExampleContents:
    """The run's worst outputs in full."""
    worst = [row["output_id"] for row in source.rows(_WORST, source.run_id, WORST_COUNT)]
    narrow_to_outputs(source.connection, source.run_id, worst)
    return ExampleContents(source.rows(_WORST_IN_FULL))
