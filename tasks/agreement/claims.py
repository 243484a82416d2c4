"""Agreement on claims: raters with raters, and the judge with raters, claim by claim."""

import duckdb

from gradebook.tasks.agreement.steps import StepAgreement, measure_marks
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query


def measure_claims(
    connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None = None
) -> tuple[StepAgreement, ...]:
    """Measured as steps are, with a claim for a step: one row for each criterion and kind of pairs with claims that two
    marked; none in an older lake.

    found_rate: share of the claims that a rater did not mark as supported which the judge, or the other rater, did not
    either. error_type: contradicted or not_in_source, to which unverified belongs.
    """
    try:
        rows = read_rows(connection, query("agreement/claim_marks_of_run"), run_id=run_id, criterion_id=criterion_id)
    except duckdb.CatalogException:  # a version of the lake before people rated claims
        return ()
    return measure_marks(rows)
