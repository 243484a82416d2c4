"""Rule about criteria that nearly repeat one another."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from math import ceil

from gradebook.rubrics.lint.findings import Remark, register_rule
from gradebook.rubrics.lint.tokens import content_words
from gradebook.rubrics.model.rubric import Rubric

LEAST_OVERLAP = 0.8  # words in both over words in either (Jaccard)
FEWEST_WORDS = 4
MOST_COMPARED = 100  # earlier criteria for each criterion

_Words = frozenset[str]


@register_rule("similar-descriptions", "warning", "Merge the two criteria, or state how their questions differ.")
def find_similar_descriptions(rubric: Rubric) -> Iterator[Remark]:
    """Two criteria share at least 80% of the words of their descriptions, so they are hardly independent."""
    texts = [content_words(criterion.description) for criterion in rubric.criteria]
    for index, earlier, overlap in _similar_pairs(texts):
        message = f"found {overlap:.0%} of the words of criteria[{earlier}] ({rubric.criteria[earlier].id}) here"
        yield Remark(("criteria", index, "description"), f"{message}, expected a question of its own")


def _similar_pairs(texts: list[tuple[str, ...]]) -> Iterator[tuple[int, int, float]]:
    """Each text with the first earlier text similar to it: (text, earlier text, overlap).

    Two sets with an overlap of at least t share one of the (1 - t) * n + 1 rarest words of each, so only those are
    looked up, the rarest first, and at most 100 texts with such a word are compared: time stays linear in the criteria.
    """
    sets = [frozenset(words) for words in texts]
    frequencies = Counter(word for words in sets for word in words)
    owners: dict[str, list[int]] = {}
    for index, words in enumerate(sets):
        if len(words) < FEWEST_WORDS:
            continue
        ranked = sorted(words, key=lambda word: (frequencies[word], word))
        rarest = ranked[: len(words) - ceil(LEAST_OVERLAP * len(words)) + 1]
        holders = chain.from_iterable(reversed(owners.get(word, ())) for word in rarest)
        candidates = sorted(set(islice(holders, MOST_COMPARED)))
        for earlier in candidates:
            overlap = _overlap(words, sets[earlier])
            if overlap >= LEAST_OVERLAP and texts[earlier] != texts[index]:
                yield index, earlier, overlap
                break
        for word in rarest:
            owners.setdefault(word, []).append(index)


def _overlap(words: _Words, others: _Words) -> float:
    shared = len(words & others)
    return shared / (len(words) + len(others) - shared)
