"""Flow that calibrates a run's judge using people's ratings, on a schedule or after an import of ratings."""

from prefect import flow
from prefect.artifacts import create_table_artifact

from gradebook.rubrics.text.reasons import reason_words
from gradebook.tasks.agreement.calibration import Calibration, RunCalibration, calibrate_run
from gradebook.tasks.lake.versions import find_lake_at
from gradebook.tasks.workspace.folder import DEFAULT_LAKE


@flow(name="calibrate-judge", flow_run_name="judge of {run_id}")
def calibrate_judge(
    run_id: str,
    criterion: str | None = None,
    rate_next: int = 0,
    at: str | None = None,
    lake: str = DEFAULT_LAKE,
    data: str | None = None,
) -> RunCalibration:
    """Correct a published run's means using ratings of some of its outputs, and show them as an artifact."""
    calibration = calibrate_run(find_lake_at(lake, data, at), run_id, criterion_id=criterion, next_count=rate_next)
    rows = [_cells(row) for row in calibration.rows]
    create_table_artifact(rows, key="calibration", description=calibration.note or f"Calibrated means of run {run_id}")
    return calibration


def _cells(row: Calibration) -> dict[str, object]:
    estimate = row.corrected
    return {
        "criterion": row.criterion_id,
        "model": row.name,
        "rated": row.n,
        "judge alone": row.naive.value,
        "corrected": estimate.value,
        "from": estimate.ci_low,
        "to": estimate.ci_high,
        "ratings to halve it": row.more_count,
        "note": row.note or reason_words(estimate.reason) or None,
    }
