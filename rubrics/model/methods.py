"""Methods that give a criterion its verdicts, by `type`."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from gradebook.rubrics.model.levels import LEVEL_ID_PATTERN, Frozen, number_as_text
from gradebook.rubrics.model.outputs import FIELD_PATTERN
from gradebook.rubrics.model.own_templates import check_template
from gradebook.rubrics.model.taxonomy import Penalty, Severity

_DOTTED = "[A-Za-z_][A-Za-z0-9_.]*"
Mode = Literal["strict", "loose"]  # how a check reads an output
MOST_EXAMPLES = 8  # examples of a judged criterion: each is sent with every request
FUNCTION_PATTERN = rf"^{_DOTTED}:{_DOTTED}$"
MOST_STEPS_AT_ONCE = 50
BASELINE = "baseline"  # the run that `--baseline` names, in place of a column or a model


NEEDS = ("judge", "audio", "steps", "prompt", "context", "reference", BASELINE, "raters", "own functions")


OutputField = Annotated[str, Field(pattern=FIELD_PATTERN)]  # see `read_field`


class MethodSettings(Frozen):
    """Settings of a method, and properties that other modules use.

    is_asked: a judge scores the criterion. is_read: a judge or a person reads the criterion's text. is_by_code: code
    decides, so people need not rate it. is_for_rows: allowed for per-case criteria; rows may not choose code to run.
    has_own_text: the criterion's text changes the score.
    """

    type: str
    is_asked: ClassVar[bool] = False
    is_read: ClassVar[bool] = False
    is_by_code: ClassVar[bool] = False
    is_for_rows: ClassVar[bool] = False
    has_own_text: ClassVar[bool] = True

    @property
    def is_stepwise(self) -> bool:
        """Whether each step of an agent gets a verdict."""
        return False

    @property
    def kind(self) -> str:
        """Key of the scoring method in `METHODS` of tasks/methods."""
        return self.type

    @property
    def needs(self) -> frozenset[str]:
        """Inputs that a run needs beyond the outputs, from `NEEDS`."""
        return frozenset({"judge"} if self.is_asked else ())


class CheckMethod(MethodSettings):
    """a deterministic check, by name: [checks](checks.md)"""

    is_by_code: ClassVar[bool] = True
    is_for_rows: ClassVar[bool] = True

    type: Literal["check"]
    """`check`"""
    check: str
    """name of the check"""
    settings: dict[str, Any] = {}
    """settings of the check: [checks](checks.md)"""
    field: OutputField | None = None
    """part of an output that is a JSON object, by its path: `reply`, `answer.0.text`; only it is checked, and an output
    without it is unscored"""
    mode: Mode = "strict"
    """`loose` also accepts an output that passes without its first line, its last line, both, or asterisks"""
    _folder: Path | None = PrivateAttr(None)

    @property
    def folder(self) -> Path | None:
        """Folder of the files that the settings name; None if they may name no file."""
        return self._folder

    def placed(self, folder: Path, settings: dict[str, Any]) -> "CheckMethod":
        """Copy of the check with settings that name files below a folder.

        The folder is not part of digests or tables.
        """
        method = self.model_copy(update={"settings": settings})
        method._folder = folder
        return method


class SchemaMethod(MethodSettings):
    """the output, read as JSON, validated against a JSON Schema; an output that is not JSON fails"""

    model_config = ConfigDict(populate_by_name=True)

    is_by_code: ClassVar[bool] = True
    is_for_rows: ClassVar[bool] = True

    type: Literal["schema"]
    """`schema`"""
    json_schema: dict[str, Any] = Field(alias="schema")
    """a JSON Schema; a `$ref` refers to a part of it or to one of the rubric's `schemas`; patterns are in RE2's
    syntax"""


class JudgedExample(Frozen):
    """Output with a known level, shown to the judge with the criterion."""

    output: str
    """the judged output"""
    level: Annotated[str, Field(pattern=LEVEL_ID_PATTERN)]
    """id of its level; one of the criterion's"""
    prompt: str | None = None
    """its prompt"""
    rationale: str | None = None
    """reason for its level"""
    case_id: str | None = None
    """case that it is from, which no run with this rubric may evaluate; not shown to the judge"""

    @field_validator("level", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return number_as_text(value)


Sees = Literal["answer", "trajectory", "steps"]
Unit = Literal["output", "step"]


class JudgeMethod(MethodSettings):
    """a language model: [judging](judging.md). `max_tokens` replaces the judge's own limit"""

    is_asked: ClassVar[bool] = True
    is_read: ClassVar[bool] = True
    is_for_rows: ClassVar[bool] = True

    type: Literal["judge"]
    """`judge`"""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """replaces the judge's own limit"""
    guidance: Annotated[str, Field(min_length=1)] | None = None
    """for the judge, in addition to the question: how to decide hard cases"""
    template: Annotated[str, Field(min_length=1), AfterValidator(check_template)] | None = None
    """how the judge is shown the case, in place of all its columns: [templates](judge-reference.md#templates)"""
    examples: Annotated[tuple[JudgedExample, ...], Field(max_length=MOST_EXAMPLES)] = ()
    """at most 8 judged outputs, each with `output`, `level` (its id), and optionally `prompt`, `rationale` and the
    `case_id` that it is from: a run that evaluates this case is refused"""
    field: OutputField | None = None
    """part of an output that is a JSON object, by its path: `reply`, `answer.0.text`; the judge is shown it as the
    output, and an output without it is unscored"""
    sees: Sees = "answer"
    """what the judge is shown beside the prompt: the `answer`; the `trajectory`, which is the agent's steps and the
    answer; or the `steps` alone. An output without steps is unscored unless it is `answer`"""
    unit: Unit = "output"
    """what gets a verdict: the `output`, or each `step` of the agent: [steps](trajectories.md#steps)"""
    steps_at_once: Annotated[int, Field(ge=1, le=MOST_STEPS_AT_ONCE)] = 10
    """with `unit: step`: number of steps in one question"""
    penalties: Annotated[dict[Severity, Penalty], Field(min_length=1)] | None = None
    """with `unit: step`: severity: points, out of 100, that an error of it takes; default: those of the rubric's
    `taxonomy`"""
    lists_requirements: bool = False
    """`true`: before its level the judge lists what the case asks for, each with whether it is met and a quote: the
    view `listed_requirements`. Judges that give probabilities alone list nothing"""
    can_abstain: bool = False
    """`true`: the judge may abstain; the verdict is then unscored, with the reason `abstained`"""
    hears_audio: bool = False
    """`true`: the judge gets the sound that the row's `audio` names, too: [audio](own-data.md#audio)"""
    prefer: Literal["human", "judge"] = "judge"
    """`human`: ratings of people replace the judge where they exist; the judge sees a rated output only in a batch with
    unrated criteria"""

    @property
    def is_stepwise(self) -> bool:
        """Whether the judge labels each step."""
        return self.unit == "step"

    @property
    def kind(self) -> str:
        """`steps` if the judge labels each step, else `judge`."""
        return "steps" if self.is_stepwise else self.type

    @property
    def needs(self) -> frozenset[str]:
        """A judge; also sounds or steps, if they are judged."""
        required = {"judge": True, "audio": self.hears_audio, "steps": self.is_stepwise or self.sees != "answer"}
        return frozenset(name for name, is_wanted in required.items() if is_wanted)

    @model_validator(mode="after")
    def _steps_are_judged_by_themselves(self) -> Self:
        if self.unit == "step":
            settings = {"sees": self.sees != "answer", "examples": self.examples, "can_abstain": self.can_abstain}
            settings |= {
                "lists_requirements": self.lists_requirements,
                "hears_audio": self.hears_audio,
                "prefer": self.prefer == "human",
                "field": self.field,
            }
            if conflicts := [name for name, is_given in settings.items() if is_given]:
                raise ValueError(f"found {', '.join(conflicts)} with unit: step, expected neither")
        elif self.penalties is not None or self.steps_at_once != JudgeMethod.model_fields["steps_at_once"].default:
            raise ValueError("found penalties or steps_at_once without unit: step, expected neither")
        if self.field is not None and self.sees == "steps":
            raise ValueError("found field with sees: steps, expected answer or trajectory, which show the output")
        return self


class RatingsMethod(MethodSettings):
    """people: [ratings](own-data.md#ratings-of-people)"""

    is_read: ClassVar[bool] = True
    is_for_rows: ClassVar[bool] = True

    type: Literal["ratings"]
    """`ratings`"""
    field: OutputField | None = None
    """part of an output that is a JSON object, by its path: `reply`, `answer.0.text`; raters are shown it first"""
    unit: Unit = "output"
    """`step`: people rate each step of the agent: [trajectories](ratings.md#trajectories)"""
    penalties: Annotated[dict[str, Penalty], Field(min_length=1)] | None = None
    """severity: points, out of 100, deducted for an error of that severity; `type/severity`: for one of that type, as
    in MQM; the errors of a trajectory rate this criterion"""

    @property
    def is_stepwise(self) -> bool:
        """Whether people rate each step."""
        return self.unit == "step"

    @property
    def needs(self) -> frozenset[str]:
        """Raters; also steps, if they are rated."""
        return frozenset({"raters", *(["steps"] if self.is_stepwise else [])})


ClaimMeasure = Literal[
    "supported", "not_contradicted", "recall", "f1", "passages", "citation_recall", "citation_precision"
]
CITATION_MEASURES = ("citation_recall", "citation_precision")


class ClaimsMethod(MethodSettings):
    """each claim of the output, checked `against` the row's `context`, `reference` or `prompt`:
    [claims](methods.md#claims)
    """

    is_asked: ClassVar[bool] = True
    has_own_text: ClassVar[bool] = False

    type: Literal["claims"]
    """`claims`"""
    against: Literal["context", "reference", "prompt"] = "context"
    """the column that has to support the claims"""
    of: Literal["output", "reference"] = "output"
    """the text whose claims are checked; `reference` against the `context` measures the retriever"""
    measure: ClaimMeasure = "supported"
    """the score: share of the claims that are `supported` or `not_contradicted`; against a reference also the share of
    its claims that the output supports (`recall`), and the harmonic mean of both (`f1`); against the context also the
    average precision of its `passages`, and of the output's citations `citation_recall` and `citation_precision`"""
    precision: Literal["claim", "sentence"] = "claim"
    """what is checked: each `claim` that the judge finds, or each `sentence`, without a question to find claims"""
    can_abstain: bool = False
    """`true`: the judge may abstain on a claim; the output is then unscored, with the reason `abstained`"""

    @property
    def needs(self) -> frozenset[str]:
        """A judge, and the columns that the method reads."""
        return frozenset({"judge", self.against, self.of})

    @property
    def finds_claims(self) -> bool:
        """Whether a judge has to find the claims; sentences and those that cite are known without one."""
        return self.precision == "claim" and self.measure not in CITATION_MEASURES

    @model_validator(mode="after")
    def _measure_fits(self) -> Self:
        required = {"recall": "reference", "f1": "reference"} | dict.fromkeys(
            ("passages", *CITATION_MEASURES), "context"
        )
        if required.get(self.measure, self.against) != self.against:
            expected = f"against: {required[self.measure]}"
            raise ValueError(f"found measure: {self.measure} against {self.against}, expected {expected}")
        if self.of == "reference" and (self.against == "reference" or self.measure in CITATION_MEASURES):
            combination = f"of: reference with against: {self.against} and measure: {self.measure}"
            raise ValueError(f"{combination}, expected another column, and no citations")
        return self


class SimilarityMethod(MethodSettings):
    """likeness of the output to the row's `reference`, `context` or `prompt`, or to a baseline's output, beside its
    likeness to those of other cases: [similarity](methods.md#similarity)
    """

    has_own_text: ClassVar[bool] = False

    type: Literal["similarity"]
    """`similarity`"""
    against: Literal["reference", "context", "prompt", "baseline"] = "reference"
    """the column to compare with, or the outputs of the run that `--baseline` names; the most similar passage, message
    or output counts"""
    field: OutputField | None = None
    """part of an output that is a JSON object, by its path: `reply`, `answer.0.text`; only it is compared, of a
    baseline's outputs too, and an output without it is unscored"""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """separator between several references, of which the most similar counts; needs `against: reference`"""
    is_rescaled: bool = True
    """the score is 0 at the mean similarity to other cases and 1 where both texts are the same; `false`: the
    similarity itself"""

    @property
    def needs(self) -> frozenset[str]:
        """The column, or the baseline, to compare with."""
        return frozenset({self.against})

    @model_validator(mode="after")
    def _separator_is_of_references(self) -> Self:
        if self.separator is not None and self.against != "reference":
            raise ValueError(f"found separator with against: {self.against}, expected against: reference")
        return self


class PreferenceMethod(MethodSettings):
    """a language model that prefers the output, or another answer to the same case:
    [preferences](methods.md#preferences). The levels are `worse` 0, `same` 0.5 and `better` 1
    """

    is_asked: ClassVar[bool] = True

    type: Literal["preference"]
    """`preference`"""
    against: Annotated[str, Field(min_length=1)]
    """whose answer the output is compared with: `baseline`, the run that `--baseline` names, or a model of the same
    outputs, by its name or as `model @ checkpoint`"""
    guidance: Annotated[str, Field(min_length=1)] | None = None
    """for the judge, in addition to the question: how to decide hard cases"""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """replaces the judge's own limit"""

    @property
    def needs(self) -> frozenset[str]:
        """A judge, and the baseline if outputs are compared with its answers."""
        return frozenset({"judge", *([BASELINE] if self.against == BASELINE else [])})


def compares_with_baseline(method: object) -> bool:
    """Whether a method compares outputs with those of the baseline's run: a similarity, or a preference."""
    return getattr(method, "against", None) == BASELINE


class FunctionMethod(MethodSettings):
    """a Python function of your own, in a package that you allow: [functions](functions.md)"""

    is_by_code: ClassVar[bool] = True

    type: Literal["function"]
    """`function`"""
    function: Annotated[str, Field(pattern=FUNCTION_PATTERN)]
    """`module.path:function`"""
    settings: dict[str, Any] = {}
    """second argument of the function; not passed if empty"""
    takes: Literal["row", "content"] = "row"
    """first argument: the `row`, or the output's `content` alone, a JSON object; other outputs are unscored"""

    @property
    def needs(self) -> frozenset[str]:
        """Functions that the operator allows."""
        return frozenset({"own functions"})


Method = Annotated[
    CheckMethod
    | SchemaMethod
    | JudgeMethod
    | RatingsMethod
    | ClaimsMethod
    | SimilarityMethod
    | PreferenceMethod
    | FunctionMethod,
    Field(discriminator="type"),
]
METHODS: dict[str, type[MethodSettings]] = {
    get_args(method.model_fields["type"].annotation)[0]: method for method in get_args(get_args(Method)[0])
}
ROW_METHODS = tuple(name for name, method in METHODS.items() if method.is_for_rows)
