"""Rubrics of a lake by id, version and target, and reviews of single targets by them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gradebook.flows.api.inputs import load_rubric
from gradebook.flows.api.published import lake_uri
from gradebook.flows.api.wording import in_parameters
from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.files.load import shipped_rubrics
from gradebook.rubrics.files.versions import next_version, required_step, step_fault
from gradebook.rubrics.model.errors import Fault, InputError, RubricError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.rubric_store.files import refuse_unfit_text
from gradebook.tasks.rubric_store.versions import (
    GivenRubric,
    RubricState,
    delete_pointer,
    list_versions,
    register_rubric,
    stored_rubric,
)
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.review import Review, review_artifact


class Registry:
    """Rubrics registered in a lake. Versions are immutable; an id alone means its highest active version.

    >>> registry = Registry(LAKE)
    >>> registry.register("json_record").version in {row["rubric_version"] for row in registry.list()}
    True
    >>> registry.review({"id": 1}, target_type="record").status
    'needs_revision'
    """

    def __init__(self, lake: str | None = None, data: str | None = None) -> None:
        """lake: URI of a lake, by default GRADEBOOK_LAKE, else sqlite:lake/catalog.sqlite; the first rubric makes it.

        data: location of its Parquet files.
        """
        self._lake, self._uri, self._data = find_lake(lake_uri(lake), data), lake_uri(lake), data

    @in_parameters
    def register(self, rubric: GivenRubric, state: str = "active") -> Rubric:
        """Store a version, or set its state: active, draft or retired, as `gradebook rubric register`.

        Raises `RubricError` for a rubric that is not fit to be active, and for another text of a stored version.
        """
        loaded = self._loaded(rubric)
        if state not in [*RubricState]:
            raise InputError("state", repr(state), f"one of {', '.join(RubricState)}")
        if state == RubricState.active:
            is_shipped = isinstance(rubric, str) and rubric in shipped_rubrics()
            refuse_unfit_text(loaded, rubric_yaml(loaded), loaded.id, is_shipped=is_shipped)
        register_rubric(self._lake, loaded, RubricState(state), datetime.now(UTC))
        return loaded

    @in_parameters
    def get(self, name: str) -> Rubric:
        """Rubric `ID` or `ID@VERSION` of the lake. Raises `InputError` if the lake does not have it."""
        rubric = stored_rubric(self._lake, name)
        if rubric is None:
            raise InputError("name", repr(name), f"a rubric registered in {self._lake.name}")
        return rubric

    @in_parameters
    def get_for_target(self, target_type: str) -> tuple[Rubric, ...]:
        """Active rubrics for a kind of output, as their `target_type` names it: the latest version of each."""
        rows = [row for row in self.list(target_type) if row["is_latest"] and row["state"] == RubricState.active]
        return tuple(self.get(f"{row['rubric_id']}@{row['rubric_version']}") for row in rows)

    @in_parameters
    def update(self, rubric: GivenRubric) -> Rubric:
        """Register a changed rubric under the smallest version that its changes need; a higher one of its own stays.

        Raises `InputError` for an id that the lake does not have.
        """
        loaded = self._loaded(rubric)
        before = self.get(loaded.id)
        step = required_step(before, loaded).step
        if step == "none":
            return before
        if loaded.version == before.version:
            loaded = loaded.model_copy(update={"version": next_version(before.version, step)})
        elif fault := step_fault(before, loaded):
            raise RubricError((Fault(loaded.id, None, f"version: {fault.message}"),))
        return self.register(loaded)

    @in_parameters
    def delete(self, rubric_id: str) -> None:
        """Delete what the id alone means; its versions stay, as runs used them. Raises `InputError`."""
        delete_pointer(self._lake, rubric_id)

    def list(self, target_type: str | None = None) -> tuple[Row, ...]:
        """Versions in the lake with their states, newest first, as `gradebook rubric list`."""
        rows = list_versions(self._lake)
        return tuple(row for row in rows if target_type in (None, row["target_type"]))

    @in_parameters
    def review(  # noqa: PLR0913 - each is a setting with a default
        self,
        target: str | Mapping[str, Any],
        target_type: str | None = None,
        rubrics: Sequence[str] = (),
        judge: str | None = None,
        *,
        name: str | None = None,
        budget_usd: float | None = None,
        allow_unscored: bool = False,
        allow_functions: Sequence[str] = (),
    ) -> Review:
        """Review one target against rubrics, as `gradebook review`: its state becomes approved or needs_revision.

        target: a text, a row with an `output`, or any other mapping, which is judged as its JSON. rubrics: names, by
        default those registered for the target_type. name: of the target in the table `artifacts`; default: the type.
        Raises `InputError`, also where no rubric is for the type, and `UnfinishedError`.
        """
        if not rubrics and target_type is None:
            raise InputError("rubrics", "none", "rubrics, or a target_type")
        registered = self.get_for_target(target_type) if not rubrics and target_type is not None else ()
        names = tuple(rubrics) or tuple(f"{rubric.id}@{rubric.version}" for rubric in registered)
        if not names:
            raise InputError("target_type", repr(target_type), "the target_type of an active rubric")
        text = target if isinstance(target, str) else json.dumps(target, ensure_ascii=False)
        request = EvaluationRequest("", names[0], judge, lake=self._uri, data=self._data, budget_usd=budget_usd)
        request = replace(request, allow_unscored=allow_unscored, allow_functions=tuple(allow_functions))
        return review_artifact(name or target_type or "target", text.encode(), names, request, target_type)

    def _loaded(self, rubric: GivenRubric) -> Rubric:
        stored_version = stored_rubric(self._lake, rubric) if isinstance(rubric, str) and "@" in rubric else None
        return stored_version or load_rubric(rubric)

    def __repr__(self) -> str:
        return f"<Registry {self._lake.name}>"
