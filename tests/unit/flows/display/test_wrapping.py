"""Sentences in lines as wide as a terminal."""

from rich.text import Text

from gradebook.flows.display.terminal import wrapped
from tests.support.law_over import law_over


@law_over(
    ("text", "lines"),
    [
        ("to rate: `people rate RUN --n 50`; then go on", ["to rate:", "`people rate RUN --n 50`;", "then go on"]),
        ("run `people rate RUN --n 50 --lake here`, then", ["run", "`people rate RUN --n 50 --lake here`,", "then"]),
        ("a lone ` breaks between words alone", ["a lone ` breaks", "between words", "alone"]),
        ("    one that is indented goes on so", ["    one that is", "    indented goes", "    on so"]),
        ("- one of a list goes on so", ["- one of a list", "  goes on so"]),
        ("ok   a first column is left", ["ok   a first", "     column is", "     left"]),
        ("/a/path/longer/than/the/line is whole", ["/a/path/longer/than/the/line", "is whole"]),
        ("first\n\nthird", ["first", "", "third"]),
    ],
)
def test_a_line_is_broken_between_words_and_never_within_a_command(text, lines):
    assert wrapped(Text(text), 18).plain.split("\n") == lines
