"""Judges: the type, and its kinds: a model, recorded replies, a panel and a cascade."""

import hashlib
import json
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import numpy as np
from pydantic import Field, model_validator

from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.prompts.batched_criteria import packed_prompt_digest
from gradebook.rubrics.prompts.combine_opinions import Aggregate, Combined, Opinions, combine_opinions
from gradebook.rubrics.prompts.decisions import MOST_OPTIONS, decisions_prompt_digest
from gradebook.rubrics.prompts.distributions import MEAN, VerdictKind, VerdictRule
from gradebook.rubrics.prompts.prompt import DEFAULT_STYLE, JUDGE_PROMPT_VERSION, PromptStyle, prompt_digest
from gradebook.tasks.judging.settings.model import DECISION_FORMS, FORMS, Address, FrozenSettings, ModelSettings, Share
from gradebook.tasks.judging.settings.provider_table import reasons_first

FIRST, THEN = 0, 1  # indices of a cascade's members
REPLAY_PREFIX = "replay:"
DECISIONS_IN_FLIGHT = 8  # requests queue at these services: many questions a request, few requests
# Settings of replies that are written, which a decision model has no use for.
_OF_TEXTS = (
    *("mode", "packing", "reply_order", "level_order", "flaws_first", "reply_format", "swap_share", "batch_command"),
    *("max_tokens", "temperature", "seed", "reasoning_effort", "verbosity", "thinking"),
)
REASONED_TOKENS = 8_192  # of a reply with what a model reasons before; 414 are usual, 10,000 happen
MOST_REASONED_TOKENS = 32_768  # of the second request, where the first was cut off


@dataclass(frozen=True, slots=True)
class Opinion:
    """One vote wanted on an output: its judge, its replicate number and its order of levels."""

    judge_index: int = 0
    replicate: int = 0
    is_swapped: bool = False  # position-bias control with the levels reversed; counts in no verdict


ONLY = Opinion()


@dataclass(frozen=True, slots=True)
class Packing:
    """Number of criteria of an output in one request.

    is_whole: the other criteria of the request are part of each question, so all are asked again if one is open;
    otherwise any open criteria of an output share a request. is_typed: typed questions of a decision model.
    """

    size: int = 1
    is_whole: bool = True
    is_typed: bool = False

    @property
    def is_packed(self) -> bool:
        """Whether the keys cover the other criteria of the request."""
        return self.is_whole and (self.size > 1 or self.is_typed)


ALONE = Packing()


class When(FrozenSettings):
    """Condition for asking the second judge of a cascade: one of these is enough.

    share_below: the probability of the first judge's most probable level is lower than this. margin_below: it is less
    than this above that of the next level. entropy_above: the entropy of the levels is higher than this, in bits.
    near_threshold: the expected score is closer than this to the criterion's threshold; of a gate without one, the
    probability of its best level to 0.5. audit: share of the outputs that the second judge is asked about in any case.
    """

    share_below: Share | None = None
    margin_below: Share | None = None
    entropy_above: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    near_threshold: Share | None = None
    disagreement: bool = False
    criteria: tuple[str, ...] = ()  # criteria that only the second judge is asked
    unscored: bool = True
    audit: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0

    @property
    def doubts(self) -> dict[str, Any]:
        """Arguments of `find_unsure`."""
        measures = {name: getattr(self, name) for name in ("share_below", "margin_below", "entropy_above")}
        return measures | {"is_disagreement": self.disagreement, "is_unscored": self.unscored}

    def is_audited(self, output_id: str) -> bool:
        """Whether an output is in the sample that the second judge is asked about in any case."""
        return self.audit > 0 and _drawn_number("audit", output_id) < self.audit

    @property
    def identity(self) -> dict[str, Any]:
        """Settings of the condition; later ones are left out where they are not set, so that older digests stay."""
        first = ("share_below", "disagreement", "criteria", "unscored")
        return {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if name in first or value != type(self).model_fields[name].default
        }


class Judge(ABC):
    """Judge of a run: one model, recorded replies, or several judges as a panel or a cascade."""

    __slots__ = ()

    # -------- what each kind states
    @property
    @abstractmethod
    def judge(self) -> str:
        """Name of the judge in tables."""

    @property
    @abstractmethod
    def members(self) -> "tuple[PlainJudge, ...]":
        """Judges of a panel or a cascade; a plain judge alone."""

    @abstractmethod
    def with_members(self, members: "Sequence[PlainJudge]") -> "Judge":
        """Same judge with other members, as many as it has."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Settings that affect a reply; judges that differ in them never share a verdict."""

    # -------- what a kind may state otherwise
    @property
    def as_model(self) -> "JudgeSettings | None":
        """Settings of a single model that is asked; None for recorded replies and for several judges."""
        return None

    @property
    def is_batch(self) -> bool:
        """Whether requests are sent as batches, whose replies take hours."""
        return any(member.mode == "batch" for member in self.online)

    @property
    def when(self) -> When | None:
        """Condition for asking the second judge of a cascade; None where every member is asked."""
        return None

    @property
    def verdict_identity(self) -> dict[str, Any]:
        """Identity with all settings that affect a verdict."""
        return self.identity

    def combine(self, votes: Sequence[Opinion], opinions: Opinions, level_count: int) -> Combined:
        """Verdicts of some votes. opinions: what the votes are, in their order."""
        return combine_opinions(opinions, np.zeros(len(votes), dtype=np.int64), "mean", level_count)

    # -------- members
    @property
    def online(self) -> "tuple[JudgeSettings, ...]":
        """Members that are asked: models behind an endpoint or a program."""
        return tuple(model for member in self.members if (model := member.as_model) is not None)

    @property
    def recordings(self) -> "tuple[ReplaySettings, ...]":
        """Members whose replies are recorded."""
        return tuple(recording for member in self.members if (recording := member.as_recording) is not None)

    @property
    def member_names(self) -> tuple[str, ...]:
        """Names of the members in tables; a repeated name gets a suffix such as `#2`."""
        seen: Counter[str] = Counter()
        names = []
        for member in self.members:
            seen[member.judge] += 1
            names.append(member.judge if seen[member.judge] == 1 else f"{member.judge}#{seen[member.judge]}")
        return tuple(names)

    @property
    def writer(self) -> "PlainJudge":
        """Member that writes texts for a run: a cascade's second judge, else the first one that is asked.

        A decision model is the writer only where there is no other: it writes none.
        """
        online = self.online if self.when is None else self.online[::-1]
        return next((member for member in online if not member.is_decision), online[0] if online else self.members[0])

    @property
    def writer_index(self) -> int:
        """Index of the writer among the members."""
        return self.members.index(self.writer)

    # -------- votes
    def votes(self, criterion_id: str = "") -> tuple[Opinion, ...]:
        """Votes that a criterion may need per output, grouped by judge; each judge's position-bias control is last."""
        is_second_alone = self.when is not None and criterion_id in self.when.criteria
        return tuple(
            vote
            for index, member in enumerate(self.members)
            if not (is_second_alone and index == FIRST)
            for vote in member.votes_at(index)
        )

    def list_votes(self, criterion_id: str) -> tuple[Opinion, ...]:
        """Votes that a criterion of claims or steps may need per output: recorded replies hold none, and their levels
        have one order.
        """
        members = self.members
        return tuple(
            vote
            for vote in self.votes(criterion_id)
            if members[vote.judge_index].as_model is not None and not vote.is_swapped
        )

    def parts_at_once(self, criterion_id: str, usual: int, questions_of_part: int = 1) -> int:
        """Claims or steps of an output in one request: the least of the members, as all are asked the same parts.

        usual: of a judge that writes; questions_of_part: typed questions about one part.
        """
        models = [self.members[vote.judge_index].as_model for vote in self.list_votes(criterion_id)]
        sizes = (
            max(model.questions_per_request // questions_of_part, 1) if model.is_decision else usual
            for model in models
            if model is not None
        )
        return min(sizes, default=usual)

    @property
    def has_several_votes(self) -> bool:
        """Whether a verdict may use more than one vote, or be measured by another."""
        return self.votes() != (ONLY,)

    def is_conditional(self, vote: Opinion, votes: Sequence[Opinion]) -> bool:
        """Whether a vote on a criterion is asked only where the first judge of a cascade is unsure."""
        return self.when is not None and vote.judge_index == THEN and votes[0].judge_index == FIRST

    def deciding(self, votes: Iterable[Opinion]) -> list[Opinion]:
        """Votes that count in a verdict: all; of a cascade, the votes of the last judge that voted."""
        votes = list(votes)
        last = max((vote.judge_index for vote in votes), default=0)
        return [vote for vote in votes if self.when is None or vote.judge_index == last]

    def drawn_rows(self, vote: Opinion, output_ids: Sequence[str], rows: Sequence[int]) -> Sequence[int]:
        """Rows whose outputs are in the sample for this vote; drawn by a hash, the same in each run."""
        purpose, share = self.members[vote.judge_index].sample_of(vote)
        return rows if share >= 1 else [row for row in rows if _drawn_number(purpose, output_ids[row]) < share]

    def drawn_votes(self, votes: Sequence[Opinion], output_ids: Sequence[str]) -> Iterator[tuple[int, Opinion]]:
        """Votes wanted on some outputs, each with the output's row: output by output."""
        drawn = {vote: set(self.drawn_rows(vote, output_ids, range(len(output_ids)))) for vote in votes}
        for row in range(len(output_ids)):
            yield from ((row, vote) for vote, rows in drawn.items() if row in rows)

    def asked_as(self, vote: Opinion) -> "PlainJudge":
        """Member asked for a vote, with the order of levels of that vote."""
        member = self.members[vote.judge_index]
        return member.swapped if vote.is_swapped else member

    def style_of(self, vote: Opinion) -> PromptStyle:
        """Form of the prompt for a vote."""
        return self.asked_as(vote).style

    def verdict_rule_of(self, vote: Opinion) -> VerdictRule:
        """Rule that turns the distribution of a vote into a verdict."""
        return self.members[vote.judge_index].verdict_rule

    # -------- identities
    @property
    def judge_digest(self) -> str:
        """Digest of the identity, 32 hex digits."""
        return identity_digest(self.identity)

    @property
    def verdict_digest(self) -> str:
        """Digest of all settings that affect a run's verdicts, 32 hex digits; `judge_digest` if there is one vote."""
        is_own = not self.has_several_votes and self.verdict_rule_of(ONLY) == MEAN
        return self.judge_digest if is_own else identity_digest(self.verdict_identity)

    @property
    def recalibrated(self) -> dict[str, Any]:
        """Setting of a run by recalibrated judges: `recalibration`, by judge; empty for others."""
        by_member = {
            name: model.recalibration.model_dump(mode="json")
            for name, member in zip(self.member_names, self.members, strict=True)
            if (model := member.as_model) is not None and model.recalibration is not None
        }
        return {"recalibration": by_member} if by_member else {}


class PlainJudge(Judge):
    """Judge that is no panel or cascade, and may be a member of one. Recorded replies have these defaults."""

    __slots__ = ()

    @property
    def members(self) -> "tuple[PlainJudge, ...]":
        """The judge alone."""
        return (self,)

    def with_members(self, members: "Sequence[PlainJudge]") -> "PlainJudge":
        """The other judge."""
        (member,) = members
        return member

    @property
    def as_recording(self) -> "ReplaySettings | None":
        """File of recorded replies; None for a judge that is asked."""
        return None

    @property
    def is_decision(self) -> bool:
        """Whether the judge answers typed questions with probabilities, and writes no text."""
        return False

    @property
    def style(self) -> PromptStyle:
        """Form of the prompts."""
        return DEFAULT_STYLE

    @property
    def verdict_rule(self) -> VerdictRule:
        """Rule that turns a distribution over the levels into a verdict."""
        return MEAN

    @property
    def packing_rule(self) -> Packing:
        """Number of criteria of an output in one request."""
        return ALONE

    @property
    def swapped(self) -> "PlainJudge":
        """Same judge with the levels in the opposite order, where it is asked."""
        return self

    def votes_at(self, index: int) -> list[Opinion]:
        """Votes of the judge on an output. index: its place among the members."""
        return [Opinion(index)]

    def sample_of(self, vote: Opinion) -> tuple[str, float]:
        """Sample of the outputs that get a vote: the purpose by which it is drawn, and its share of the outputs."""
        return "", 1.0


class Ceilings(FrozenSettings):
    """Most that a decision model takes; None: unknown, and its refusals are learned from request by request."""

    question_tokens: Annotated[int, Field(ge=1)] | None = None  # of the state with one question
    request_tokens: Annotated[int, Field(ge=1)] | None = None  # of the state with all questions
    request_bytes: Annotated[int, Field(ge=1)] | None = None
    options: Annotated[int, Field(ge=2, le=MOST_OPTIONS)] = MOST_OPTIONS  # of a choice


class Recalibration(FrozenSettings):
    """Temperatures of a judge's probabilities by criterion, and the version under which runs name them."""

    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    temperatures: Annotated[dict[str, Annotated[float, Field(ge=0.1, le=10, allow_inf_nan=False)]], Field(min_length=1)]


class JudgeSettings(ModelSettings, PlainJudge):
    """Settings of a model that gives verdicts."""

    mode: Literal["reply", "logprobs", "batch"] = "reply"
    concurrency_limit: Annotated[str, Field(min_length=1)] | None = None
    replicates: Annotated[int, Field(ge=1, le=32)] = 1
    replicate_share: Share = 1  # share of the outputs with more than one replicate
    swap_share: Share = 0  # share of the outputs with a position-bias control: judged again with the levels reversed
    packing: Annotated[int, Field(ge=1, le=4)] = 1
    reply_order: Literal["evidence_first", "level_first"] = "evidence_first"
    level_order: Literal["worst_first", "best_first"] = "worst_first"
    flaws_first: bool = False  # the judge names flaws before evidence, rationale and level
    reply_format: Literal["json_schema", "json_object", "tool", "text"] = "json_schema"  # text: no structured output
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0
    epoch: Annotated[int, Field(ge=1)] | None = None  # another number asks all questions anew
    batch_command: str | None = None  # program that answers a batch file, in place of an endpoint
    verdict: VerdictKind = "mean"  # how a distribution over the levels becomes a score
    verdict_probability: Annotated[float, Field(gt=0, le=1)] = 0.5  # with `verdict: threshold`
    recalibration: Recalibration | None = None  # of the probabilities, by people's ratings
    questions_per_request: Annotated[int, Field(ge=1, le=1000)] = 64  # of a decision model
    reads_together: bool = False  # the decision model reads all questions of a request together
    ceilings: Ceilings | None = None  # of a decision model; None: unknown

    @model_validator(mode="before")
    @classmethod
    def _decisions_queue(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("form") in DECISION_FORMS:
            return {"max_in_flight": DECISIONS_IN_FLIGHT} | data
        return data

    @model_validator(mode="after")
    def _decisions_write_nothing(self) -> Self:
        if not self.is_decision:
            if changed := self._changed("questions_per_request", "reads_together", "ceilings"):
                raise ValueError(f"{changed} with form: systemone or decisions, as of a decision model")
            if any(fallback.form in DECISION_FORMS for fallback in self.fallbacks):
                raise ValueError("fallbacks of a form that asks as the judge's own does")
            return self
        if changed := self._changed(*_OF_TEXTS):
            raise ValueError(f"no {changed} with form: {self.form}: a decision model writes no text")
        if any(fallback.form not in DECISION_FORMS for fallback in self.fallbacks):
            raise ValueError(f"fallbacks with form: {' or '.join(DECISION_FORMS)}, as the judge itself has")
        return self

    def _changed(self, *names: str) -> str | None:
        """First of some settings that differs from its default."""
        return next((name for name in names if getattr(self, name) != type(self).model_fields[name].default), None)

    @model_validator(mode="after")
    def _flaws_have_a_place(self) -> Self:
        if self.flaws_first and (self.mode == "logprobs" or self.packing > 1):
            setting = "mode: logprobs" if self.mode == "logprobs" else f"packing: {self.packing}"
            raise ValueError(
                f"flaws_first without {setting}: each reply names the flaws for one criterion, in sentences"
            )
        return self

    @model_validator(mode="after")
    def _probabilities_have_a_place(self) -> Self:
        if self.recalibration is not None and self.mode != "logprobs" and not self.is_decision:
            raise ValueError("recalibration with mode: logprobs, or of a decision model: others give no probabilities")
        return self

    @model_validator(mode="after")
    def _program_has_a_place(self) -> Self:
        if self.batch_command is None:
            return self
        is_set = {"mode: batch": self.mode == "batch", "packing": self.packing > 1, "fallbacks": bool(self.fallbacks)}
        if conflicts := [name for name, is_given in is_set.items() if is_given]:
            raise ValueError(f"batch_command without {conflicts[0]}: the program gets one request for each question")
        program_arguments(self.batch_command, "in", "out")
        return self

    @property
    def judge(self) -> str:
        """Name of the judge in tables."""
        return self.model

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The judge's own address, then its fallbacks."""
        return (self, *self.fallbacks)

    @property
    def is_plain(self) -> bool:
        """Whether the endpoint enforces no schema, so that text may surround the JSON object."""
        return self.reply_format != "json_schema"

    @property
    def is_decision(self) -> bool:
        """Whether the model answers typed questions with probabilities, and writes no text."""
        return self.form in DECISION_FORMS

    @property
    def is_unnamed(self) -> bool:
        """Whether the host stands for the model, as of `systemone:URL`."""
        return self.is_decision and self.model == urlsplit(self.base_url).netloc

    @property
    def verdict_rule(self) -> VerdictRule:
        """Rule that turns a distribution over the levels into a verdict."""
        fitted = self.recalibration.temperatures if self.recalibration else {}
        probability = self.verdict_probability if self.verdict == "threshold" else VerdictRule().probability
        return VerdictRule(self.verdict, probability, tuple(sorted(fitted.items())))

    @property
    def is_reasoning(self) -> bool:
        """Whether the model reasons before it replies, as far as its settings and its name tell."""
        if self.is_decision:
            return False
        if self.reasoning_effort is not None:
            return self.reasoning_effort != "none"
        return self.thinking > 0 if self.thinking is not None else reasons_first(self.model)

    @property
    def room_tokens(self) -> int:
        """Tokens for the model's reasoning, in addition to its reply's; 0 where a file sets `max_tokens`."""
        if not self.is_reasoning or "max_tokens" in self.model_fields_set:
            return 0
        return max(REASONED_TOKENS - self.max_tokens, self.thinking or 0)

    def token_limit(self, reply_tokens: int | None = None) -> int:
        """Limit of a request. reply_tokens: of the reply alone, if not as in the settings."""
        if self.is_decision:
            return 0
        return (reply_tokens or self.max_tokens) + self.room_tokens

    @property
    def style(self) -> PromptStyle:
        """Form of the prompts."""
        kind: Literal["reply", "logprobs"] = "logprobs" if self.mode == "logprobs" else "reply"
        return PromptStyle(kind, self.reply_order, self.level_order, self.flaws_first)

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a reply; judges that differ in them never share a verdict."""
        if self.is_decision:
            return self._decision_identity
        return {
            "kind": FORMS[self.form],
            "model": self.model,
            "temperature": 0 if self.temperature == 0 else self.temperature,  # a file's 0 is read as 0.0
            "seed": self.seed,
            "max_tokens": self.max_tokens,  # without the room to reason, which changes no reply that is whole
            "prompt_version": JUDGE_PROMPT_VERSION,
            "prompt_digest": prompt_digest(self.style) if self.packing == 1 else packed_prompt_digest(),
            "packing": self.packing,
            "reply": self.style.reply,
            "reply_order": self.reply_order,
            "level_order": self.level_order,
            # Left out at their defaults, so that digests from before they existed stay.
            **({"flaws_first": True} if self.flaws_first else {}),
            **({} if self.reply_format == "json_schema" else {"reply_format": self.reply_format}),
            **({} if self.epoch is None else {"epoch": self.epoch}),
            **self.extra_identity,
        }

    @property
    def _decision_identity(self) -> dict[str, Any]:
        """Identity of a decision model. Its other questions count only where it reads them together."""
        together = {"reads_together": True, "questions_per_request": self.questions_per_request}
        return {
            "kind": FORMS[self.form],
            "model": self.model,
            "prompt_digest": decisions_prompt_digest(),
            **(together if self.reads_together else {}),
            **({} if self.epoch is None else {"epoch": self.epoch}),
            **self.extra_identity,
        }

    @property
    def verdict_identity(self) -> dict[str, Any]:
        """Identity, with the settings for replicates, position-bias control and verdicts where they are set."""
        rule = self.verdict_rule
        ruled: dict[str, Any] = {}
        if (rule.kind, rule.probability) != (MEAN.kind, MEAN.probability):
            ruled["verdict"] = [rule.kind, rule.probability]
        if self.recalibration is not None:
            ruled["recalibration"] = self.recalibration.model_dump(mode="json")
        if self.replicates == 1 and not self.swap_share:
            return self.identity | ruled
        shares = {name: getattr(self, name) for name in ("replicates", "replicate_share", "swap_share")}
        return self.identity | {"opinions": shares} | ruled

    @property
    def as_model(self) -> Self:
        """The judge itself: it is asked."""
        return self

    @property
    def packing_rule(self) -> Packing:
        """Number of criteria of an output in one request."""
        if self.is_decision:
            return Packing(self.questions_per_request, is_whole=self.reads_together, is_typed=True)
        return Packing(self.packing)

    @property
    def swapped(self) -> Self:
        """Same judge with the levels in the opposite order."""
        return self.model_copy(update={"level_order": self.style.swapped.level_order})

    def votes_at(self, index: int) -> list[Opinion]:
        """Replicates, then the position-bias control."""
        replicate_count = self.replicates if self.replicate_share else 1
        votes = [Opinion(index, replicate) for replicate in range(replicate_count)]
        return [*votes, *([Opinion(index, is_swapped=True)] if self.swap_share else [])]

    def sample_of(self, opinion: Opinion) -> tuple[str, float]:
        """Sample of the outputs that get a position-bias control, or a further replicate."""
        if opinion.is_swapped:
            return "swap", self.swap_share
        return ("replicates", self.replicate_share) if opinion.replicate > 0 else ("", 1.0)


@dataclass(frozen=True, slots=True)
class ReplaySettings(PlainJudge):
    """File of recorded replies, and the digest of its bytes."""

    path: Path
    digest: str

    @property
    def judge(self) -> str:
        """Name of the judge in tables."""
        return f"{REPLAY_PREFIX}{self.path.name}"

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the recorded replies, by their digest."""
        return {"kind": "replay", "digest": self.digest}

    @property
    def as_recording(self) -> "ReplaySettings":
        """The judge itself: its replies are read from a file."""
        return self


@dataclass(frozen=True, slots=True)
class PanelSettings(Judge):
    """Several judges that are each asked every question; their votes are combined."""

    members: tuple[PlainJudge, ...] = field()  # `field`, as the inherited property would be taken for its default
    aggregate: Aggregate = "mean"

    @property
    def judge(self) -> str:
        """Name of the panel in tables."""
        return f"panel({', '.join(self.member_names)})"

    def with_members(self, members: Sequence[PlainJudge]) -> "PanelSettings":
        """Panel of other judges."""
        return PanelSettings(tuple(members), self.aggregate)

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a verdict: the judges, the votes of each, and the aggregate."""
        members = [member.verdict_identity for member in self.members]
        return {"kind": "panel", "aggregate": self.aggregate, "members": members}

    def combine(self, votes: Sequence[Opinion], opinions: Opinions, level_count: int) -> Combined:
        """Combine votes into verdicts: first the votes of each judge, then the judges by the aggregate."""
        judges = np.array([vote.judge_index for vote in votes], dtype=np.int64)
        return combine_opinions(opinions, judges, self.aggregate, level_count)


@dataclass(frozen=True, slots=True)
class CascadeSettings(Judge):
    """First judge, and a second judge for outputs where the first is unsure."""

    first: PlainJudge
    then: PlainJudge
    when: When = field(default_factory=When)

    @property
    def members(self) -> tuple[PlainJudge, ...]:
        """Both judges, in the order of asking."""
        return (self.first, self.then)

    def with_members(self, members: Sequence[PlainJudge]) -> "CascadeSettings":
        """Cascade of other judges, under the same condition."""
        first, then = members
        return CascadeSettings(first, then, self.when)

    @property
    def judge(self) -> str:
        """Name of the cascade in tables."""
        return f"cascade({', '.join(self.member_names)})"

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a verdict: both judges, and the condition for the second."""
        members = [member.verdict_identity for member in self.members]
        return {"kind": "cascade", "when": self.when.identity, "members": members}


def program_arguments(command: str, requests: str, replies: str) -> list[str]:
    """Words of a `batch_command`, with the paths of its two files. Raises `ValueError` if it is none."""
    arguments = shlex.split(command)
    if not arguments or not all(any(slot in word for word in arguments[1:]) for slot in ("{in}", "{out}")):
        raise ValueError("a program and its arguments, with {in} and {out} for the files of requests and replies")
    return [word.replace("{in}", requests).replace("{out}", replies) for word in arguments]


def identity_digest(identity: dict[str, Any]) -> str:
    """Digest of a judge's identity, 32 hex digits."""
    return digest_of(json.dumps(identity, sort_keys=True))


def _drawn_number(purpose: str, output_id: str) -> float:
    """Pseudorandom number in 0..1, the same in each run."""
    drawn = hashlib.blake2b(f"{purpose}|{output_id}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64
