import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.checks.style.tone import find_disguised
from tests.support.checked import judge
from tests.support.law_over import law_over
from tests.support.nightly import nightly


@law_over(
    ("output", "evidence"),
    [
        ("What the FUCK?", "found 'f***'"),
        ("Bullshit, you bastard!", "found 'b*******', 'b******'"),
        ("son of a bitch", "found 's** o* a b****'"),
        ("_shit_", "found 's***'"),
        ("", None),
        ("class assess Scunthorpe cocktail Dickens shiitake", None),
        ("A Maine Coon, a chink in the armour, a prick of the needle", None),
        ("Cold may retard growth; see also spastic colon and dyke", None),
        ("sh1t f**k", None),
        ("他妈的", None),
    ],
)
def test_profanity_is_found_as_whole_words_and_masked(output, evidence):
    assert judge("no_profanity", output) == (evidence is None, evidence)


def test_the_lists_are_chosen_and_changed():
    assert judge("no_profanity", "damn")[0]
    assert not judge("no_profanity", "damn", kinds=["mild_profanity"])[0]
    assert judge("no_profanity", "that bastard", **{"except": ["bastard"]})[0]
    assert not judge("no_profanity", "drat", more=["drat"])[0]


@law_over(
    ("output", "is_found"),
    [
        ("sh1t", True),
        ("f**k this", True),
        ("F**KING", True),
        ("@ssh0le", True),
        ("f u c k", True),
        ("f.u.c.k you", True),
        ("fuuuuck", True),
        ("shiiiit", True),
        ("**bold** a**b 5*3 a@b.c", False),
        ("fork f*rk a b c d", False),
        ("$100 4 you! 455 b4", False),
        ("aaah hmmm", False),
        ("", False),
    ],
)
def test_disguises_are_found_when_asked_for(output, is_found):
    assert judge("no_profanity", output, disguised=True)[0] is not is_found


def test_words_that_look_alike_in_disguise_are_named_once():
    assert judge("no_profanity", "s**t", disguised=True)[1] == "found 's***'"  # it may be either of two


def test_a_disguise_of_an_excepted_word_does_not_count():
    assert judge("no_profanity", "sh1t", disguised=True, **{"except": ["shit"]})[0]


@law_over(
    ("output", "settings", "evidence"),
    [
        ("A game-changing tool", {"lists": ["hype"]}, "found 'game changing' (hype)"),
        ("Great question! Yes", {"lists": ["filler"]}, "found 'great question' (filler)"),
        ("I'm so sorry.", {"lists": ["apologetic"]}, 'found "i\'m so sorry" (apologetic)'),
        ("Let us delve into it", {"lists": ["cliches"]}, "found 'delve into' (cliches)"),
        ("You should have known", {"lists": ["judgmental"]}, "found 'you should have known' (judgmental)"),
        ("As everyone knows, no", {"lists": ["condescending"]}, "found 'as everyone knows' (condescending)"),
        ("Synergy, amazing", {"words": ["synergy"], "lists": ["hype"]}, "found 'synergy', 'amazing' (hype)"),
        ("An amazing day", {"lists": ["hype"], "except": ["day"]}, "found 'amazing' (hype)"),
        ("An amazing day", {"lists": ["hype"], "except": ["an amazing day"]}, None),
        ("Plain words.", {"lists": ["hype", "filler", "judgmental", "condescending", "cliches"]}, None),
        ("", {"lists": ["hype"]}, None),
    ],
)
def test_words_of_a_banned_tone_are_named_with_their_list(output, settings, evidence):
    assert judge("no_banned_tone", output, **settings) == (evidence is None, evidence)


@law_over(
    ("name", "settings"),
    [
        ("no_banned_tone", {}),
        ("no_banned_tone", {"lists": ["rude"]}),
        ("no_banned_tone", {"words": ["!"]}),
        ("no_profanity", {"kinds": []}),
        ("no_profanity", {"kinds": ["all"]}),
        ("no_profanity", {"more": [" "]}),
    ],
)
def test_settings_that_mean_nothing_are_refused(name, settings):
    with pytest.raises(ValidationError):
        read_settings(find_check(name), settings)


@pytest.mark.parametrize("piece", ["f*", *nightly(["a b c d, ", "a", "f" + "*" * 50, "@$", "abb ", "f.", "aaa b "])])
def test_a_hostile_text_gets_a_verdict(piece):
    text = (piece * 10**6)[: 10**6]
    assert judge("no_profanity", text, disguised=True) == (True, None)


def test_disguises_of_a_row_do_not_depend_on_the_others():
    texts = pa.array(["fine", "d4rn it", "D A R N", "darrrn"])
    assert find_disguised(texts, frozenset({"darn"})) == [(), ("darn",), ("darn",), ("darn",)]
