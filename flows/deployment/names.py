"""Names in Prefect's UI, of flow runs, states and artifacts; run ids, dates and crash limits of flow runs that a
deployment started; and parameters of flows, with type, bounds and meaning for a deployment's form.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from inspect import Parameter
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

from prefect import State, get_client, runtime
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext
from pydantic import Field

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.tasks.lake.rows import model_name
from gradebook.tasks.operations.suites import suites_title
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.runs.option_fields import field_type
from gradebook.tasks.runs.request import Option, Use, options_of

MOST_NAMED = 2  # most models in the name of a flow run
GATES_NOT_MET = "GatesNotMet"  # state, of type Completed, of a flow run whose run is published with unmet gates


def evaluation_name() -> str:
    """Name of a flow run that evaluates outputs: rubric and file, without their folders."""
    options = _parameters()
    return f"{_title(options['rubric'])} over {Path(str(options['outputs'])).name}"


def evaluated_name(summary: RunSummary) -> str:
    """Name of a flow run that evaluated outputs: its models and their verdict too."""
    models = [model_name(row) for row in summary.scores]
    others = f" and {len(models) - MOST_NAMED} more" if len(models) > MOST_NAMED else ""
    return f"{evaluation_name()}: {', '.join(models[:MOST_NAMED])}{others}: {summary.verdict.word}"


def nightly_name() -> str:
    """Name of a nightly flow run: suites file and date."""
    options = _parameters()
    return f"{suites_title(str(options['suites']))} {options.get('date') or flow_date()}"


def checkpoint_name() -> str:
    """Name of a flow run that evaluates a checkpoint: model, checkpoint or step, and rubric."""
    options = _parameters()
    step = f"step {options['step']}" if options.get("step") is not None else Path(str(options["outputs"])).name
    return f"{options['model']} {options.get('checkpoint') or step} by {_title(options['rubric'])}"


def artifact_key(subject: str, kind: str) -> str:
    """Key of an artifact, which also groups the same table of later runs. subject: a suite, rubric or suites file."""
    plain = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")
    return f"{plain}-{kind}" if plain else kind


def _parameters() -> dict[str, Any]:
    return dict(runtime.flow_run.parameters)


def _title(name: object) -> str:
    """Name of a file without folder and suffix; any other name, such as `ID@1.0.0`, unchanged."""
    path = Path(str(name))
    return path.stem if path.suffix in (".yaml", ".yml", ".json") else path.name


MOST_NAME = 48  # characters of the name in a run id; a run id has at most 80
MOST_DEATHS = 4  # most processes of one flow run that may die


def deployed_run_id(name: str) -> str | None:
    """Id of the run that this flow run publishes under a name; None if no deployment started the flow run.

    A retry of the flow run, after a crash or by hand, has the same id: it resumes the run, or reads it back if it is
    published. A command has no such id: it resumes the unfinished run of the same request.
    """
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.deployment_id is None or flow_run.expected_start_time is None:
        return None
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:MOST_NAME] or "run"
    return f"{plain}-{flow_run.expected_start_time:%Y%m%d-%H%M%S}-{flow_run.id.hex[:8]}"


def refuse_endless_tries() -> None:
    """Raise `UnfinishedError` in a flow run whose process died `MOST_DEATHS` times, which ends an endless loop.

    Attempts that failed with an error do not count.
    """
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.run_count <= MOST_DEATHS:
        return
    with get_client(sync_client=True) as client:
        states = client.read_flow_run_states(flow_run.id)
    if death_count(states) >= MOST_DEATHS:
        raise UnfinishedError(
            f"the process of this flow run died {MOST_DEATHS} times; finished judgments are stored: find the cause "
            "(memory?), then start the deployment again"
        )


def death_count(states: Sequence[State]) -> int:
    """Number of processes that died; a death may be reported more than once."""
    kinds = [state.type for state in sorted(states, key=lambda state: state.timestamp)]
    seen = [kind for kind in kinds if kind in (StateType.RUNNING, StateType.CRASHED)]
    return sum(pair == (StateType.RUNNING, StateType.CRASHED) for pair in pairwise(seen))


def flow_date() -> date:
    """Local date of this flow run's scheduled start; a retry after midnight has the date of the first attempt."""
    context = FlowRunContext.get()
    expected = context.flow_run.expected_start_time if context and context.flow_run else None
    return (expected or datetime.now(UTC)).astimezone().date()


Dollars = Annotated[float, Field(ge=0)]
Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(use: Use) -> Callable[[Function], Function]:
    """Replace a flow function's `**options` with the options of a use as parameters.

    Prefect makes the form of a deployment from the function's signature and the `Args` of its docstring. The options
    are added to both, required parameters first.
    """

    def decorate(function: Function) -> Function:
        signature, options = inspect.signature(function), options_of(use)
        parameters_of_flow = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD
        ]
        parameters = [
            *(parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters_of_flow),
            *map(_parameter, options),
        ]
        parameters.sort(key=lambda parameter: parameter.default is not Parameter.empty)
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        function.__doc__ = _documented(inspect.getdoc(function) or "", options)
        return function

    return decorate


def _parameter(option: Option) -> Parameter:
    value_type = field_type(option, is_strict=False)
    default = Parameter.empty if option.is_required else option.plain_default
    annotation = value_type | None if default is None else value_type
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _documented(text: str, options: Iterable[Option]) -> str:
    """Add a line for each option to the `Args` of a docstring."""
    head = text if "\nArgs:\n" in text else f"{text}\n\nArgs:"
    hints = (f"    {option.name}: {'; '.join(filter(None, (option.help, option.form_hint)))}" for option in options)
    return "\n".join([head, *hints])
