"""Charts of hostile names."""

from xml.etree import ElementTree

from gradebook.tasks.reporting.charts import Colour, draw
from tests.support.law_over import law_over


@law_over("unseen", ["\x00", "\x1b", "\x85", "\u2028", "\u202e", "\ufffe", "\n"])
def test_an_unprintable_character_becomes_a_space_in_a_chart(unseen):
    # Vega ends the process on a null byte, an escape and a non-character when it measures them, and fails on U+2028.
    name = f"a{unseen}<b>"
    row = {"model": name, "mean": 0.5, "low": 0.4, "high": 0.6, "tip": name}
    svg = draw("means", {"rows": [row]}, models=[name], colours=[Colour("c1")], height=26)
    root = ElementTree.fromstring(str(svg))
    assert "a <b>" in {element.get("data-tip") for element in root.iter()}
    assert "a <b>" in {element.text for element in root.iter()}
