"""Parameters that Prefect records of a flow run."""

from pathlib import Path
from typing import Any

from prefect import flow

from gradebook.flows.deployment.parameters import sends_plain_values


@sends_plain_values
@flow
def take(value: Any) -> Any:
    return value


def test_plain_parameters_are_recorded_as_they_are_and_others_as_prefect_does():
    plain = {"value": {"a": [1, 2.5, None, "x", True]}}
    assert take.serialize_parameters(plain) == plain
    assert take.serialize_parameters({"value": Path("a/b")}) == {"value": "a/b"}
    assert take.serialize_parameters({"value": object()}) == {"value": "<object>"}
