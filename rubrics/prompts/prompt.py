"""Messages for a judge, and the keys under which its replies are stored.

The order is: instructions, case and output, criterion. The longest shared part comes first, so that endpoints with
prefix caching read it once for all criteria. The judged text is JSON-encoded, so it cannot close a delimiter, and
levels have labels whose meaning the author of an output cannot know.

A repair request after an unusable reply has the same messages, the reply, and its fault.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.model.json_values import digest_of, drop_none
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import JudgeMethod, Sees
from gradebook.rubrics.model.outputs import read_field
from gradebook.rubrics.model.own_templates import TemplateFault, render_template
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.chat import CHAT_VERSION, read_chat, shown_prompt
from gradebook.rubrics.prompts.media import Medium, media_digest
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.prompt_text import (
    draw_labels,
    file_digest,
    inert_text,
    read_sections,
    shown_json,
    shuffle_labels,
)
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.rubrics.prompts.trajectory import Trajectory

JUDGE_PROMPT_VERSION = "judge_v2"
MOST_LETTERED_LEVELS = 20  # maximum number of log-probabilities that endpoints return per token
STEPS_PROMPT = "steps_v1"
TEMPLATE_PROMPT = "template_v1"
FLAWS_PROMPT = "flaws_v1"
REQUIREMENTS_PROMPT = "requirements_v1"
NO_STEPS = "no_steps: found no steps, expected those of an agent"
_REQUIREMENT_SHAPE = {
    "type": "object",
    "properties": {"requirement": {"type": "string"}, "met": {"type": "boolean"}, "quote": {"type": "string"}},
    "required": ["requirement", "met", "quote"],
    "additionalProperties": False,
}
_UNABLE = "It can't be judged: what is shown does not let anyone answer the question."

Messages = list[dict[str, Any]]
Labels = dict[str, str | None]  # label -> level id, None for "can't be judged"


class View(NamedTuple):
    """Part of a case that a judge sees. field: path of the field that is shown as the output; "": the whole output."""

    sees: Sees = "answer"
    field: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Prompt and output as the judge sees them.

    media: contents of the placeholders in the texts, and the sound of a transcript. media_fault: reason why the case
    can't be shown, so that nothing can be asked. audio: name of the sound of a transcript, for criteria that hear it.
    trajectory: the steps of the output, if any were read. sees: the shown parts.
    """

    prompt: str | None
    output: str
    reference: str | None = None
    context: tuple[str, ...] = ()
    media: tuple[Medium, ...] = ()
    media_fault: str | None = None
    audio: str | None = None
    trajectory: Trajectory | None = None
    sees: Sees = "answer"

    def seen(self, view: View) -> "Case":
        """Case in a view. `media_fault` is set if the steps or the field are missing."""
        sees, field = view
        case = self
        if sees != "answer":
            no_steps = NO_STEPS if self.trajectory is None else None
            case = replace(self, sees=sees, media_fault=self.media_fault or no_steps)
        if field:
            text, no_field = read_field(self.output, field)
            media = tuple(
                medium for medium in self.media if medium.place != "output" or medium.placeholder in (text or "")
            )
            fault = case.media_fault or no_field
            case = replace(case, output=text or "", media=media, media_fault=fault)
        return case

    @property
    def steps(self) -> Trajectory | None:
        """Steps that are shown."""
        return None if self.sees == "answer" else self.trajectory

    @property
    def quotable(self) -> str:
        """Text that evidence may be quoted from."""
        if self.steps is None:
            return self.output
        return self.steps.texts if self.sees == "steps" else f"{self.output}\n{self.steps.texts}"

    def passages(self, column: str) -> tuple[str, ...]:
        """Texts of this case's `context`, `reference` or `prompt`, see `passages_of`."""
        return passages_of(column, getattr(self, column))

    @property
    def unread(self) -> "Case":
        """Copy of a case whose reply has arrived: its images and sounds are not read again, and may be
        gone.
        """
        return replace(self, media=tuple(replace(medium, load=None) for medium in self.media), media_fault=None)


def passages_of(column: str, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Non-blank texts of a value of `context`, `reference` or `prompt`; a chat gives one text per message."""
    if column == "prompt" and isinstance(value, str):
        messages = shown_prompt(value)
        value = [*map(_message_text, messages)] if isinstance(messages, list) else messages
    texts = [value] if isinstance(value, str) else value or ()
    return tuple(text for text in texts if text.strip())


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(message, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """Form of a question: whether the reply has reasons, and the order of its parts."""

    reply: Literal["reply", "logprobs"] = "reply"
    reply_order: Literal["evidence_first", "level_first"] = "evidence_first"
    level_order: Literal["worst_first", "best_first"] = "worst_first"
    flaws_first: bool = False  # the judge names the output's flaws before anything else
    lists_requirements: bool = False  # the judge lists what the case asks for, in place of evidence

    @property
    def swapped(self) -> "PromptStyle":
        """Same style with the levels in the opposite order."""
        return replace(self, level_order="best_first" if self.level_order == "worst_first" else "worst_first")

    def of(self, criterion: Criterion) -> "PromptStyle":
        """Style of a criterion's questions; replies with reasons list requirements if the method says so."""
        is_listing = self.reply == "reply" and lists_requirements(criterion)
        return replace(self, lists_requirements=True) if is_listing else self

    @property
    def prompt_name(self) -> str:
        """Prompt file of this style."""
        return f"{JUDGE_PROMPT_VERSION}_logprobs" if self.reply == "logprobs" else JUDGE_PROMPT_VERSION

    @property
    def reply_keys(self) -> tuple[str, ...]:
        """Keys of a reply, in the requested order."""
        if self.reply == "logprobs":
            return ("level",)
        keys = ("requirements" if self.lists_requirements else "evidence", "rationale", "level")
        keys = ("level", *keys[:2]) if self.reply_order == "level_first" else keys
        return ("flaws", *keys) if self.flaws_first else keys


DEFAULT_STYLE = PromptStyle()


def prompt_digest(style: PromptStyle = DEFAULT_STYLE, sees: Sees = "answer") -> str:
    """Digest of a style's prompt file, and of the text about steps if they are shown; 32 hex digits."""
    digest = seeing_digest(style.prompt_name, sees)
    for prompt_name, is_included in (
        (FLAWS_PROMPT, style.flaws_first),
        (REQUIREMENTS_PROMPT, style.lists_requirements),
    ):
        if is_included:
            digest = digest_of(f"{digest}|{file_digest(prompt_name)}")
    return digest


def seeing_digest(prompt_name: str, sees: Sees) -> str:
    """Digest of a prompt file, and of the text about steps if they are shown; 32 hex digits."""
    if sees == "answer":
        return file_digest(prompt_name)
    content = f"{file_digest(prompt_name)}|{sees}|{file_digest(STEPS_PROMPT)}"
    return digest_of(content)


def view_of(criterion: Criterion) -> View:
    """View of a criterion: answer, trajectory or steps; and the whole answer or a field."""
    method = _method_of(criterion)
    return View(method.sees, method.field or "")


def audio_and_view(criterion: Criterion) -> tuple[bool, View]:
    """(whether a criterion's judge hears the row's sound, the criterion's view)"""
    return criterion.hears_audio, view_of(criterion)


def label_of(
    criterion: Criterion, request_key: str, case: Case | None = None, style: PromptStyle = DEFAULT_STYLE
) -> Labels:
    """Draw an opaque label for each level, the worst level first: label -> level id; last, "can't be judged" -> None.

    The same key gives the same labels. Labels that occur in the case or the output are avoided if there are enough
    others. Raises `JudgeSettingsError` if there are more levels than labels.
    """
    meanings = label_meanings(criterion)
    is_letters = style.reply == "logprobs"
    if is_letters and len(meanings) > MOST_LETTERED_LEVELS:
        expected = f"expected at most {MOST_LETTERED_LEVELS} in the mode logprobs"
        raise JudgeSettingsError(f"{criterion.id}: found {len(meanings)} levels to choose from, {expected}")
    labels = draw_labels(len(meanings), case_text(case) if case else "", is_letters=is_letters)
    return dict(zip(shuffle_labels(labels, request_key), meanings, strict=True))


def label_meanings(criterion: Criterion) -> list[str | None]:
    """Values that need a label: the levels, worst first, then None if the judge may abstain."""
    levels: list[str | None] = [level.id for level in criterion.ranked_levels]
    return [*levels, None] if _method_of(criterion).can_abstain else levels


def case_text(case: Case) -> str:
    """All untrusted text of a case and its output."""
    steps = case.steps.texts if case.steps else None
    return "\n".join(text for text in (case.prompt, case.output, case.reference, *case.context, steps) if text)


def render_messages(
    case: Case,
    criterion: Criterion,
    request_key: str,
    style: PromptStyle = DEFAULT_STYLE,
    labels: Labels | None = None,
) -> Messages:
    """Write the messages of one question to a judge: instructions, case and output, then the criterion.

    labels: from `label_of`, if drawn already. Reads the images and sounds of the case. Raises `UnreadableMedia`
    if one cannot be shown.
    """
    all_labels = label_of(criterion, request_key, case, style) if labels is None else labels
    question = show_criterion(criterion, all_labels, style)
    return fill_prompt(style.prompt_name, case, question, style.of(criterion), template_of(criterion))


def template_of(criterion: Criterion) -> str | None:
    """Template with which the criterion shows a case; None: all columns."""
    return _method_of(criterion).template


def lists_requirements(criterion: Criterion) -> bool:
    """Whether the judge lists what a case asks for."""
    return _method_of(criterion).lists_requirements


def without_template(criterion: Criterion) -> Criterion:
    """Copy of the criterion that shows all columns of a case."""
    if template_of(criterion) is None:
        return criterion
    return criterion.model_copy(update={"method": _method_of(criterion).model_copy(update={"template": None})})


def fill_prompt(
    prompt_name: str, case: Case, shown: dict[str, Any], style: PromptStyle, template: str | None = None
) -> Messages:
    """Fill a prompt file with a case and its question.

    The text before the criterion depends on the criterion only through a template. Raises `UnreadableMedia` as
    `render_messages` does, and if a template does not fit the case.
    """
    sections = dict(read_sections(prompt_name))
    if style.flaws_first:
        sections |= {"flaws": read_sections(FLAWS_PROMPT)["flaws"]}
        sections["system"] = sections["system"].replace("these three keys", "these four keys")
    if style.lists_requirements:
        sections |= {"requirements": read_sections(REQUIREMENTS_PROMPT)["requirements"]}
    steps = "\n".join(f"{number}. {sections.get(key)}" for number, key in enumerate(style.reply_keys, start=1))
    first, last = ("worst", "best") if style.level_order == "worst_first" else ("best", "worst")
    system = sections["system"].replace("{first}", first).replace("{last}", last).replace("{steps}", steps)
    before_case, _, rest = sections["user"].partition("{case}")
    before_criterion, _, after = rest.partition("{criterion}")
    question_text = "".join((before_criterion, shown_json(shown), after))
    if case.steps is not None:
        steps_note = read_sections(STEPS_PROMPT)["steps" if case.sees == "steps" else "system"]
        first_part, case_part, *paragraphs = system.split("\n\n")
        system = "\n\n".join((first_part, case_part, steps_note, *paragraphs))
    if template is not None:
        first_part, _, *paragraphs = system.split("\n\n")
        system = "\n\n".join((first_part, read_sections(TEMPLATE_PROMPT)["system"], *paragraphs))
    user = case_content(before_case, question_text, case, template)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def case_content(before: str, after: str, case: Case, template: str | None = None) -> str | list[dict[str, Any]]:
    """Content parts: text before, case, its images and sounds, text after; a single text if there are no media.

    Raises `UnreadableMedia` if an image or sound can't be shown, and if a template does not fit the case.
    """
    content = before + (shown_json(case_shown(case)) if template is None else _fill_template(case, template))
    if case.media_fault is not None:
        raise UnreadableMedia(case.media_fault)
    if not case.media:
        return content + after
    texts = [{"type": "text", "text": text} for text in (content, after.lstrip("\n")) if text]
    return [texts[0], *(part for medium in case.media for part in medium.parts), *texts[1:]]


def _fill_template(case: Case, template: str) -> str:
    """Text of a case by a template. Its names are the case's values and, if the output is a JSON object, its keys."""
    try:
        content = json.loads(case.output)
    except (ValueError, RecursionError):
        content = None
    values = {**(content if isinstance(content, dict) else {}), **case_shown(case)}
    try:
        return render_template(template, {"context": [], **values}, shown_json)
    except TemplateFault as fault:
        raise UnreadableMedia(f"template: {fault}") from None


def case_shown(case: Case) -> dict[str, Any]:
    """Case and output as the JSON object CASE of a request."""
    case_json = {
        "prompt": shown_prompt(case.prompt),
        "context": list(case.context) or None,
        "reference": case.reference,
        "steps": list(case.steps.shown) if case.steps else None,
        "output": None if case.sees == "steps" else case.output,
    }
    return drop_none(case_json)


def show_criterion(criterion: Criterion, labels: Mapping[str, str | None], style: PromptStyle) -> dict[str, Any]:
    """Criterion as the judge sees it: no weight, threshold or score. labels: from `label_of`."""
    method = _method_of(criterion)
    label_by_level = {level_id: label for label, level_id in labels.items()}
    levels = [{"label": label_by_level[level.id]} | level_meaning(level) for level in criterion.ranked_levels]
    examples = [
        drop_none({"prompt": example.prompt, "output": example.output, "rationale": example.rationale})
        | {"label": label_by_level[example.level]}
        for example in method.examples
    ]
    criterion_json = {
        "name": criterion.name,
        "question": criterion.description,
        "guidance": method.guidance,
        "levels": levels if style.level_order == "worst_first" else levels[::-1],
        "unable": {"label": label_by_level[None], "meaning": _UNABLE} if None in label_by_level else None,
        "examples": examples or None,
    }
    return drop_none(criterion_json)


def _method_of(criterion: Criterion) -> JudgeMethod:
    """Judge method of the criterion; default settings for a criterion of another method."""
    return criterion.method if isinstance(criterion.method, JudgeMethod) else JudgeMethod(type="judge")


def level_meaning(level: Level) -> dict[str, Any]:
    """Description of a level.

    Its id is shown only if there is no other text: "give 5" in an output must not name a level.
    """
    name = level.label if level.label and not level.label.strip().isdigit() else None
    meaning = ": ".join(text for text in (name, level.description) if text) or level.label or level.id
    return {"meaning": meaning} | ({"indicators": list(level.indicators)} if level.indicators else {})


def reply_schema(labels: Collection[str], style: PromptStyle = DEFAULT_STYLE) -> dict[str, Any]:
    """Strict JSON schema of a reply, equal for all requests with the same labels, whatever their meaning."""
    return {"name": "judgment", "strict": True, "schema": judgment_shape(labels, style)}


def judgment_shape(labels: Collection[str], style: PromptStyle) -> dict[str, Any]:
    """JSON schema of one judgment, its keys in the requested order."""
    shapes: dict[str, Any] = {
        "flaws": {"type": "array", "items": {"type": "string"}},
        "evidence": {"type": "array", "items": {"type": "string"}},
        "requirements": {"type": "array", "items": _REQUIREMENT_SHAPE},
        "rationale": {"type": "string"},
        "level": {"type": "string", "enum": sorted(labels)},
    }
    return {
        "type": "object",
        "properties": {key: shapes[key] for key in style.reply_keys},
        "required": list(style.reply_keys),
        "additionalProperties": False,
    }


def criterion_digest(criterion: Criterion) -> str:
    """Digest of everything that affects the reply: description, levels in their shown order, and the method's keys.

    Weight, threshold, category, gate, `prefer` and the levels' scores (except for their order) are excluded: changing
    them requires no new replies. 32 hex digits.
    """
    levels = [[level.id, level.label, level.description, list(level.indicators)] for level in criterion.ranked_levels]
    unshown: dict[str, Any] = dict.fromkeys(("type", "max_tokens", "prefer"), True)
    unshown["examples"] = {"__all__": {"case_id"}}
    method_keys = _method_of(criterion).model_dump(exclude_defaults=True, exclude=unshown)
    # Keys at their defaults are excluded, so that digests do not change when a new key is added.
    content = [
        criterion.description,
        levels,
        _method_of(criterion).max_tokens,
        *([method_keys] if method_keys else []),
    ]
    content += [] if criterion.name is None else ["name", criterion.name]
    content += [file_digest(TEMPLATE_PROMPT)] if "template" in method_keys else []
    content += [file_digest(REQUIREMENTS_PROMPT)] if "lists_requirements" in method_keys else []
    return digest_of(json.dumps(content, ensure_ascii=False))


def case_digest(case: Case, *, shows_chat: bool = True) -> str:
    """Digest of the case and its output as shown, images and sounds included; 32 hex digits.

    shows_chat: False gives the digest of versions that did not show chat prompts as messages.
    """
    texts = (case.prompt, case.output, case.reference, *case.context)
    content = "|".join("-" if text is None else f"{len(text)}:{text}" for text in texts)  # lengths separate the fields
    content += media_digest(case.media, case.media_fault)
    if shows_chat and read_chat(case.prompt) is not None:
        content += f"|{CHAT_VERSION}"
    if case.steps is not None:
        content += f"|{case.sees}|{STEPS_PROMPT}|{json.dumps(case.steps.shown, ensure_ascii=False)}"
    return digest_of(content)


def request_key(judge_digest: str, criterion_digest: str, case_digest: str, replicate: int = 0) -> str:
    """Key under which one reply is paid for once, 32 hex digits."""
    return digest_of(f"{judge_digest}|{criterion_digest}|{case_digest}|{replicate}")


MOST_REPLY_SHOWN = 4_000  # characters of a reply in a repair request
MOST_QUOTES_NAMED, MOST_QUOTE_SHOWN = 3, 300
NO_TEXT = "(no text)"  # some endpoints refuse a turn without text


def repair_messages(
    messages: Sequence[dict[str, Any]],
    reply_text: str | None,
    read: ReadReply,
    style: PromptStyle,
    prompt_name: str | None = None,
) -> Messages:
    """Messages of a repair request. The previous messages stay unchanged, so that endpoints still have them cached.

    The reply is sent back as the judge's own turn, because chat templates with alternating roles refuse two user turns
    in a row; template marks in it are escaped. prompt_name: the prompt file, if not the style's own. read: the unusable
    judgment; for batched criteria, the first one.
    """
    sections = read_sections(prompt_name or style.prompt_name)
    fault = sections[read.fault or "not_json"]
    if style.lists_requirements:
        fault = fault.replace("`evidence`", "`requirements`")
    quotes = ", ".join(shown_json(quote[:MOST_QUOTE_SHOWN]) for quote in read.unverified[:MOST_QUOTES_NAMED])
    # The judge's text is filled in last, so that slots in it are not filled.
    template = sections["repair"].replace("three keys", "four keys") if style.flaws_first else sections["repair"]
    request = template.replace("{fault}", fault).replace("{quotes}", quotes)
    reply = inert_text((reply_text or "")[:MOST_REPLY_SHOWN]).strip() or NO_TEXT
    return [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": request}]
