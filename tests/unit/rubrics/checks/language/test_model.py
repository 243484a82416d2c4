import numpy as np
import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from gradebook.rubrics.checks.language import read_model
from tests.support.law_over import law_over

TEXTS = [
    "The sky is blue because the air scatters the light of the sun.",
    "DER HIMMEL IST BLAU, WEIL DIE LUFT DAS LICHT STREUT.",
    "السماء زرقاء لأن الهواء يشتت ضوء الشمس.",
    "天空是蓝色的,因为空气散射太阳的光。",
    "आसमान नीला है क्योंकि हवा सूरज की रोशनी को बिखेरती है।",
    "cafe\u0301 " * 30,
    "the cat",
]


@pytest.fixture(scope="module")
def identifier():
    return LanguageIdentifier.from_model_file(MODEL_FILE)


@pytest.fixture(scope="module")
def model(identifier):
    return read_model(identifier)


@law_over("text", TEXTS)
def test_the_scores_are_those_of_py3langid(text, identifier, model):
    scores = {}
    for code, score in zip(model.codes, model.score_texts([text])[0].tolist(), strict=True):
        scores[code] = max(score, scores.get(code, score))  # a language in two scripts has two columns
    assert scores == pytest.approx(dict(identifier.rank(text)), rel=1e-4, abs=1e-2)


def test_texts_side_by_side_do_not_run_into_each_other(model):
    together = model.score_texts(TEXTS)
    alone = [model.score_texts([text])[0] for text in TEXTS]
    assert all(np.array_equal(both, one) for both, one in zip(together, alone, strict=True))


def test_a_text_without_a_known_run_of_bytes_has_no_scores(model):
    assert model.score_texts(["", "\x01\x02", "the"])[:2] == [None, None]


def test_every_run_of_random_bytes_ends_in_the_state_that_a_walk_ends_in(identifier, model):
    content = np.random.default_rng(7).integers(0, 0x7F, 500).astype(np.uint8).tobytes()
    state, walked = 0, []
    for byte in content:
        state = identifier.tk_nextmove[(identifier.tk_row[state] << 8) + byte]
        walked.append(identifier.tk_output[state])
    assert model._find_runs(b"\xff" * 5 + content).tolist() == walked
