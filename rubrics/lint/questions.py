"""Rules about texts that ask several things at once."""

import re
from collections.abc import Iterator

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.lint.texts import shorten, without_quotes
from gradebook.rubrics.model.rubric import Rubric

_SENTENCE = re.compile(r"[^.?!;]+[.?!;]?")
_ENUMERATION = re.compile(r":|\(|\bsuch as\b|\bfor example\b|\be\.g\b")
_CONDITION = re.compile(r"^\s*(?:if|when|where|given|once|while|unless|in case)\b[^,]*,")
_RELATIVE = re.compile(r"\b(?:who|whom|which|that|what|how|whether|why|where|when|if)\b")

_AUXILIARY = "is|are|does|do|has|have|can|should|will|was|were|did"
_SECOND_CLAUSE = re.compile(
    rf"(?:\band|\bor|;)\s+(?:{_AUXILIARY})\s+(?:the|it|its|they|there|each|every|any|all|this)\b"
)
_VERBS = (
    "address answer apologise apologize ask avoid cite compare contain cover describe end explain flag follow give "
    "greet identify include keep link list mention name note offer point propose provide quote recommend refer reject "
    "repeat respond say show solve start state suggest summarise summarize support tell thank use verify warn"
)
_VERB = rf"(?:{_VERBS.replace(' ', '|')})(?:s|es)?"
_SHARING = re.compile(rf"{_VERB}|find|read|see|hear|open|copy|understand|check|apply")  # "find and use the answer"
_AFTER_A_VERB = r"(?:the|a|an|its|it|their|them|any|every|each|at|what|how|why|where|all|only|one|two|three)"
_SECOND_VERB = re.compile(rf"\b(\w+)(,?)\s+(?:and|or)\s+({_VERB})\s+{_AFTER_A_VERB}\b")
_ADJECTIVE = (
    r"(?:clear|concise|correct|complete|accurate|short|brief|warm|kind|true|safe|fluent|simple|honest|direct|fair|tidy|"
    r"relevant|polite|natural|readable|consistent|specific|professional|friendly|neutral|current|fresh|thorough|"
    r"detailed|grounded|focused|formatted|structured|\w{3,}(?:ful|ive|ous|able|ible|less|ic|ical|ent))"
)
_BOTH = re.compile(r"\bboth\b[^.;]{1,100}?\band\b|\bas well as\b", re.IGNORECASE)
_TWO_ADJECTIVES = re.compile(
    rf"\b(?:is|are|be|remains?|stays?)\b[^,]{{0,150}}?\b(?:{_ADJECTIVE},\s+){{0,5}}{_ADJECTIVE},?\s+(?:and|or)\s+"
    rf"(?:\w+ly\s+)?{_ADJECTIVE}"
    r"\s*(?:$|[?.!,;]|\b(?:in|for|to|without|with|of|on|at|enough|throughout|from|by)\b)"
)


@register_rule("double-barrelled", "warning", "Split the criterion into two, each with its own levels and weight.")
def find_double_questions(rubric: Rubric) -> Iterator[Remark]:
    """A judge or a person is asked two questions at once, so a level can be right for one and wrong for the other.

    The rule looks for two questions in one description; "and" or "or" before a second question ("and does it ..", "and
    cites its .."); and two adjectives of one subject ("clear and concise?"). Conditions, relative clauses, quoted texts
    and text after a colon are ignored. Without a question mark, only the first sentence counts.
    """
    for index, criterion in enumerate(rubric.criteria):
        if criterion.method.is_read:
            double = find_double(criterion.description)
            if double:
                message = f"found two questions in one ({shorten(double)}), expected one question per criterion"
                yield Remark(("criteria", index, "description"), message)


@register_rule(
    "compound-criterion", "warning", "Split the criterion, or describe a level for an output with half of it."
)
def find_compounds(rubric: Rubric) -> Iterator[Remark]:
    """The upper of a judged criterion's two levels asks for several things, so an output with half of them is either.

    Training on such a reward teaches a model to meet the easier half. The rule looks for "both .. and", "as well as", a
    second verb with an object of its own, and two adjectives of one subject. Criteria that are not rewarded, and those
    that `double-barrelled` finds, are left out.
    """
    for index, criterion in enumerate(rubric.criteria):
        if criterion.method.type != "judge" or not criterion.reward or len(criterion.levels) != 2:
            continue
        best = max(range(2), key=lambda index: criterion.levels[index].score)
        compound = _find_compound(criterion.levels[best].description)
        if compound and not find_double(criterion.description):
            message = f"found several demands in the upper of two levels ({shorten(compound)}), expected one demand"
            yield Remark(("criteria", index, "levels", best, "description"), message)


def _find_compound(description: str) -> str | None:
    both_match = _BOTH.search(without_quotes(description))
    return str(both_match[0]) if both_match else find_double(description)


def find_double(description: str) -> str | None:
    """Words that begin a second question; None for a single question."""
    sentences: list[str] = [sentence.strip() for sentence in _SENTENCE.findall(without_quotes(description))]
    questions = [sentence for sentence in sentences if sentence.endswith("?")]
    if len(questions) > 1:
        return questions[1]
    for sentence in questions or sentences[:1]:
        clause = _CONDITION.sub("", _ENUMERATION.split(sentence, maxsplit=1)[0])
        for double in (_SECOND_CLAUSE.search(clause), _TWO_ADJECTIVES.search(clause), _second_verb(clause)):
            if double:
                return str(double[0])
    return None


def _second_verb(clause: str) -> re.Match[str] | None:
    """Find a second verb with an object of its own ("and cites its .."), outside a relative clause."""
    for double in _SECOND_VERB.finditer(clause):
        is_shared = _SHARING.fullmatch(double[1]) is not None
        is_relative = not double[2] and _RELATIVE.search(clause[: double.start()]) is not None
        if not is_shared and not is_relative:
            return double
    return None
