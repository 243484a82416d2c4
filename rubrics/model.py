"""The rubric: criteria with levels, a method each, and a weight or a gate."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Share = Annotated[float, Field(ge=0, le=1)]
PASS_OR_FAIL = (("fail", 0.0), ("pass", 1.0))


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Level(_Frozen):
    """One step of a criterion; score in 0..1."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    score: Share
    label: str | None = None
    description: str = ""
    indicators: tuple[str, ...] = ()

    @field_validator("id", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        """Let `id: 1` stand for "1": scales are written so. A bool is YAML's yes/no trap and stays a fault."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class CheckMethod(_Frozen):
    """A deterministic check, by its registered name; its settings are checked against the registry."""

    type: Literal["check"]
    check: str
    settings: dict[str, Any] = {}


class SchemaMethod(_Frozen):
    """A JSON Schema that the output, read as JSON, has to satisfy."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    type: Literal["schema"]
    json_schema: dict[str, Any] = Field(alias="schema")


class JudgeMethod(_Frozen):
    """A language model reads the output and chooses a level."""

    type: Literal["judge"]
    max_tokens: Annotated[int, Field(gt=0)] | None = None


class RatingsMethod(_Frozen):
    """People's ratings, given in a file or kept in the lake."""

    type: Literal["ratings"]


Method = Annotated[CheckMethod | SchemaMethod | JudgeMethod | RatingsMethod, Field(discriminator="type")]


class Criterion(_Frozen):
    """One question asked of every output. weight > 0, or none for a gate."""

    id: Identifier
    description: Annotated[str, Field(min_length=1)]
    method: Method
    name: str | None = None
    category: str | None = None
    weight: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None
    gate: bool = False
    threshold: Share | None = None
    levels: tuple[Level, ...] = ()

    @model_validator(mode="after")
    def _levels_make_a_scale(self) -> Self:
        ids = [level.id for level in self.levels]
        if len(ids) != len(set(ids)):
            raise ValueError(f"levels: found the ids {', '.join(ids)}, expected each id once")
        if len(ids) == 1:
            raise ValueError(f"levels: found one level, {ids[0]}, expected at least two")
        if not ids and self.method.type in ("judge", "ratings"):
            raise ValueError(f"levels: found none, expected at least two for the method {self.method.type}")
        return self

    @model_validator(mode="after")
    def _gate_has_no_weight(self) -> Self:
        if self.gate and self.weight is not None:
            raise ValueError(
                f"weight: found {self.weight:g} on a gate, expected a gate without a weight, or gate: false"
            )
        return self

    @property
    def scale(self) -> tuple[Level, ...]:
        """The levels, worst first; fail 0 and pass 1 where the rubric gives none."""
        levels = self.levels or tuple(Level(id=level_id, score=score) for level_id, score in PASS_OR_FAIL)
        return tuple(sorted(levels, key=lambda level: level.score))

    @property
    def gate_threshold(self) -> float:
        """The score that passes this gate: its threshold, else the top of its scale."""
        return self.scale[-1].score if self.threshold is None else self.threshold


class Rubric(_Frozen):
    """A versioned set of criteria; immutable once a run used it."""

    id: Identifier
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    name: str | None = None
    description: str = ""
    owner: str | None = None
    pass_threshold: Share | None = None
    require_thresholds: bool = False
    missing: Literal["null", "skip", "zero"] = "null"
    metadata: dict[str, Any] = {}
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)]

    @field_validator("missing", mode="before")
    @classmethod
    def _bare_null(cls, value: Any) -> Any:
        """YAML reads a bare `missing: null` as nothing; it means the word."""
        return "null" if value is None else value

    @model_validator(mode="after")
    def _criteria_are_distinct_and_weighted(self) -> Self:
        ids = [criterion.id for criterion in self.criteria]
        twice = sorted({criterion_id for criterion_id in ids if ids.count(criterion_id) > 1})
        if twice:
            raise ValueError(f"criteria: found {', '.join(twice)} more than once, expected each id once")
        weighted = [criterion for criterion in self.criteria if not criterion.gate]
        if weighted and not sum(self.weight_of(criterion) for criterion in weighted) > 0:
            raise ValueError("criteria: found a weight sum of 0, expected at least one criterion with a weight above 0")
        return self

    def weight_of(self, criterion: Criterion) -> float:
        """The criterion's weight: 0 for a gate, 1 where the rubric names none."""
        if criterion.gate:
            return 0.0
        return 1.0 if criterion.weight is None else criterion.weight

    def criterion(self, criterion_id: str) -> Criterion:
        """The criterion of that id; KeyError where there is none."""
        return {criterion.id: criterion for criterion in self.criteria}[criterion_id]
