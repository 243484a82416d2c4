"""How a criterion gets its verdicts: the methods by their `type`."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from gradebook.rubrics.model.levels import LEVEL_ID_PATTERN, Frozen, number_as_text

_DOTTED = "[A-Za-z_][A-Za-z0-9_.]*"
Mode = Literal["strict", "loose"]  # how a check reads an output
MOST_EXAMPLES = 8  # of a judged criterion: each is sent with every request
FUNCTION_PATTERN = rf"^{_DOTTED}:{_DOTTED}$"
Penalty = Annotated[float, Field(ge=0, le=100)]


class CheckMethod(Frozen):
    """a deterministic check, by name: [checks](checks.md)"""

    type: Literal["check"]
    """`check`"""
    check: str
    """the check's name"""
    settings: dict[str, Any] = {}
    """the check's settings: [checks](checks.md)"""
    mode: Mode = "strict"
    """`loose` passes too where the output does without its first line, its last line, both, or asterisks"""


class SchemaMethod(Frozen):
    """the output, read as JSON, against a JSON Schema; an output that is no JSON fails"""

    model_config = ConfigDict(populate_by_name=True)

    type: Literal["schema"]
    """`schema`"""
    json_schema: dict[str, Any] = Field(alias="schema")
    """a JSON Schema; a `$ref` leads within it or to one of the rubric's `schemas`, patterns are RE2's"""


class JudgedExample(Frozen):
    """An output that was judged before, shown to the judge beside the criterion."""

    output: str
    """the output that was judged"""
    level: Annotated[str, Field(pattern=LEVEL_ID_PATTERN)]
    """the id of the level that it has; one of the criterion's"""
    prompt: str | None = None
    """what it answered"""
    rationale: str | None = None
    """why it has that level"""

    @field_validator("level", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return number_as_text(value)


class JudgeMethod(Frozen):
    """a language model: [judging](judging.md). `max_tokens` takes the place of the judge's own limit"""

    type: Literal["judge"]
    """`judge`"""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """takes the place of the judge's own limit"""
    guidance: Annotated[str, Field(min_length=1)] | None = None
    """for the judge, beside the question: how to decide hard cases"""
    examples: Annotated[tuple[JudgedExample, ...], Field(max_length=MOST_EXAMPLES)] = ()
    """at most 8 outputs judged before, each with `output`, `level` (its id), and maybe `prompt` and `rationale`"""
    can_abstain: bool = False
    """`true`: the judge may say that it can't tell; the verdict is then unscored, with the reason `abstained`"""
    prefer: Literal["human", "judge"] = "judge"
    """`human`: an output that people rated is scored by them; the judge sees it only in a pack with unrated criteria"""


class RatingsMethod(Frozen):
    """people: [ratings](own-data.md#ratings-of-people)"""

    type: Literal["ratings"]
    """`ratings`"""
    penalties: Annotated[dict[str, Penalty], Field(min_length=1)] | None = None
    """severity: the points, out of 100, that an error of it takes; the errors of a trajectory rate this criterion"""


class ClaimsMethod(Frozen):
    """each claim of the output, held `against` the row's `context`, `reference` or `prompt`; not built yet"""

    type: Literal["claims"]
    """`claims`"""
    against: Literal["context", "reference", "prompt"] = "context"
    """the column that has to bear the claims out"""


class SimilarityMethod(Frozen):
    """how near in meaning the output is to the row's `reference`; not built yet"""

    type: Literal["similarity"]
    """`similarity`"""
    against: Literal["reference", "context", "prompt"] = "reference"
    """the column to be near to"""


class FunctionMethod(Frozen):
    """a Python function of your own, in a package that you allow: [functions](functions.md)"""

    type: Literal["function"]
    """`function`"""
    function: Annotated[str, Field(pattern=FUNCTION_PATTERN)]
    """`module.path:function`"""
    settings: dict[str, Any] = {}
    """its second argument, where there are any"""


Method = Annotated[
    CheckMethod | SchemaMethod | JudgeMethod | RatingsMethod | ClaimsMethod | SimilarityMethod | FunctionMethod,
    Field(discriminator="type"),
]
METHODS: dict[str, type[Frozen]] = {
    "check": CheckMethod,
    "schema": SchemaMethod,
    "judge": JudgeMethod,
    "ratings": RatingsMethod,
    "claims": ClaimsMethod,
    "similarity": SimilarityMethod,
    "function": FunctionMethod,
}
SCORED_METHODS = ("check", "schema", "judge", "ratings", "function")  # nothing scores the others; they may stand there
ROW_METHODS = tuple(method for method in SCORED_METHODS if method != "function")  # no row of a file chooses code
