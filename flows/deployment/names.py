"""Names in Prefect's UI: of flow runs, and of the states and artifacts that tell of a run."""

import re
from pathlib import Path
from typing import Any

from prefect import runtime

from gradebook.flows.deployment.run_ids import flow_date
from gradebook.tasks.operations.suites import suites_title

GATES_NOT_MET = "GatesNotMet"  # state, of type Completed, of a flow run whose run is published with unmet gates


def evaluation_name() -> str:
    """Name of a flow run that evaluates outputs: rubric and file, without their folders."""
    options = _parameters()
    return f"{_title(options['rubric'])} over {Path(str(options['outputs'])).name}"


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
    """Key of an artifact, which groups the same table of later runs. subject: a suite, rubric or suites file."""
    plain = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")
    return f"{plain}-{kind}" if plain else kind


def _parameters() -> dict[str, Any]:
    return dict(runtime.flow_run.parameters)


def _title(name: object) -> str:
    """A file's name without folder and suffix; any other name, such as `ID@1.0.0`, as it is."""
    path = Path(str(name))
    return path.stem if path.suffix in (".yaml", ".yml", ".json") else path.name
