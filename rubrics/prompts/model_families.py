"""Model families, from the names of models: a judge tends to favour answers of its own family."""

import re

# Name prefixes of each family, matched at the start of a word of a model's name.
_FAMILIES = {
    "openai": ("gpt", "chatgpt", "o1", "o3", "o4", "davinci", "babbage", "codex"),
    "anthropic": ("claude",),
    "google": ("gemini", "gemma", "palm", "bison"),
    "meta": ("llama", "codellama"),
    "mistral": ("mistral", "mixtral", "ministral", "codestral", "magistral", "pixtral", "devstral", "mathstral"),
    "qwen": ("qwen", "qwq", "qvq"),
    "deepseek": ("deepseek",),
    "microsoft": ("phi",),
    "cohere": ("command", "aya"),
    "xai": ("grok",),
    "amazon": ("nova", "titan"),
    "zhipu": ("glm", "chatglm"),
    "moonshot": ("kimi", "moonshot"),
    "yi": ("yi",),
    "falcon": ("falcon",),
    "olmo": ("olmo", "tulu"),
    "nemotron": ("nemotron",),
    "granite": ("granite",),
    "jamba": ("jamba",),
    "internlm": ("internlm",),
}
_FAMILY_BY_NAME = {name: family for family, names in _FAMILIES.items() for name in names}
_WORD = re.compile(r"[a-z]+\d*")
_VERSION = re.compile(r"(?:[-@:_.](?:latest|\d{4}(?:[-.]?\d{2}){0,2}|\d{2}[-.]\d{2}))+$")  # a date, or the latest one
_NAMESAKES = re.compile(r"\bgpt-?(?:j|neox?|4all)\b")  # models of other families with a similar name
# Family names that are ordinary words: as the second word of a name they do not identify a family.
_FIRST_WORD_ONLY = frozenset({"command", "nova", "titan", "yi", "palm", "bison", "aya", "o1", "o3", "o4"})


def family_of(model: str) -> str | None:
    """Family of a model, by its name; None if the name does not show it.

    A provider's prefix (`anthropic/`, `models/`, `us.amazon.`) is skipped, and a fine-tune (`ft:gpt-4o:...`) belongs to
    its base's family. A distilled model's name has two, as in `deepseek-r1-distill-llama`; the first counts.
    """
    name = model.strip().lower()
    if name.startswith(("ft:", "ft-")):
        name = name[3:].partition(":")[0]
    for part in _parts(name):
        words = _WORD.findall(_NAMESAKES.sub("", part))
        for index, word in enumerate(words):
            family = _family_of_word(word)
            if family and (index == 0 or word not in _FIRST_WORD_ONLY):
                return family
    return None


def is_same_model(asked: str, answered: str) -> bool:
    """Whether two names mean one model: a provider's prefix and a date at the end (`-2024-07-18`) may differ."""
    return _plain_name(asked) == _plain_name(answered)


def _plain_name(model: str) -> str:
    return _VERSION.sub("", model.strip().lower().rpartition("/")[2])


def _parts(name: str) -> list[str]:
    """Parts of the name from last to first: the last part of `openrouter/meta-llama/llama-3` identifies the model
    best.
    """
    return [part for part in reversed(re.split(r"[/:]|\.(?=[a-z])", name)) if part]


def _family_of_word(word: str) -> str | None:
    bare = word.rstrip("0123456789")
    return _FAMILY_BY_NAME.get(word) or _FAMILY_BY_NAME.get(bare)
