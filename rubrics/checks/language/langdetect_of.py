"""Language detection with the package langdetect, as IFEval's own code uses it, but with a fixed seed.

langdetect draws runs of characters at random: without a seed, one text may be of two languages in two calls.
"""

from functools import lru_cache
from importlib import import_module, resources
from importlib.util import find_spec
from typing import Any

SEED = 0
MOST_CHARACTERS = 100_000  # langdetect itself reads 10,000, after it has removed addresses


def has_langdetect() -> bool:
    """Whether the package is installed; it is an extra."""
    return find_spec("langdetect") is not None


def detect_as_ifeval(text: str) -> str | None:
    """Likeliest language, ISO 639-1 or `zh-cn` and the like; None if langdetect finds nothing to go by."""
    detector = _factory().create()
    detector.append(text[:MOST_CHARACTERS])
    try:
        return str(detector.detect())
    except import_module("langdetect.lang_detect_exception").LangDetectException:
        return None


@lru_cache(maxsize=1)
def _factory() -> Any:
    """Detectors with langdetect's profiles in the order of their names, as their order decides rounding."""
    factory = import_module("langdetect.detector_factory").DetectorFactory()
    files = sorted(resources.files("langdetect").joinpath("profiles").iterdir(), key=lambda file: file.name)
    factory.load_json_profile([file.read_text(encoding="utf-8") for file in files if not file.name.startswith(".")])
    factory.set_seed(SEED)
    return factory
