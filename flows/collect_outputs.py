"""Flow that collects the outputs to evaluate from a model's endpoint, as one task."""

from pathlib import Path

from prefect import flow
from pydantic import PositiveInt

from gradebook.flows.deployment.names import Dollars
from gradebook.flows.deployment.prefect_stages import PrefectStages
from gradebook.tasks.collecting.collect import Collected, CollectRequest
from gradebook.tasks.collecting.collect import collect_outputs as collect


@flow(name="collect-outputs", flow_run_name="{endpoint} to {out}")
def collect_outputs(  # noqa: PLR0913 - a deployment's form shows each
    prompts: str,
    endpoint: str,
    out: str,
    model: str | None = None,
    checkpoint: str | None = None,
    samples: PositiveInt = 1,
    budget_usd: Dollars | None = None,
    max_in_flight: PositiveInt | None = None,
    max_unanswered_rate: float = 0.0,
    column_map: dict[str, str] | None = None,
) -> Collected:
    """Send the prompts of a dataset to an endpoint, each paid for once, and write the file of outputs.

    Args:
        prompts: a dataset without outputs, as the worker sees it
        endpoint: a model name or an endpoint file
        out: outputs file to write
        model: model name in the outputs; default: the endpoint's
        checkpoint: training step or tag of the served model
        samples: number of outputs per prompt
        budget_usd: maximum spend in US dollars
        max_in_flight: maximum number of concurrent requests
        max_unanswered_rate: maximum share of missing outputs
        column_map: column names of the file, by gradebook's names
    """
    request = CollectRequest(
        prompts,
        endpoint,
        Path(out),
        model,
        checkpoint,
        samples,
        budget_usd,
        max_in_flight,
        max_unanswered_rate,
        column_map or {},
    )
    return PrefectStages().call(collect, request)
