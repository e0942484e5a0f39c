"""Lines before as context in the server: outputs are those of ``dragoman translate --context``."""

import pytest

from dragoman.exchange.importing import import_model
from dragoman.shared.errors import UsageError
from tests import small
from tests.small import refuses

pytest.importorskip("transformers")
pytestmark = pytest.mark.parity
LINES = ["the cat sat on the mat", "a dog", "", "yes", "good morning to all of you", "a dog"]
ASKED = ["--beam", "3", "--maximum-length-extra", "12", "--device", "cpu"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Return a small random language model whose prompt has a place for the lines before, and one without."""
    from tests.parity.test_language_models import written

    home = tmp_path_factory.mktemp("context")
    named = {"engine": "transformers", "source_languages": ["en"], "target_languages": ["de"]}
    written(home / "theirs", "llama")
    import_model(home / "theirs", home / "shown", prompt="{context} | {text}", **named)
    import_model(home / "theirs", home / "plain", prompt="{text}", **named)
    return home


def fetched(client, content):
    given = {"source": "en", "target": "de"}
    answer = client.post("/translate_file", data=given, files={"file": ("a.txt", content.encode())}).json()
    return client.get(answer["translatedFileUrl"]).text


def test_lines_of_requests_and_files_have_those_before_them(shown, served, dragoman):
    expected = {}
    for most in (0, 2):
        text = "".join(f"{line}\n" for line in LINES)
        code, output, messages = dragoman("translate", shown / "shown", *ASKED, "--context", most, text=text)
        assert code == 0, messages
        expected[most] = output.split("\n")[: len(LINES)]
    assert sum(one != other for one, other in zip(*expected.values(), strict=True)) >= 3
    both = {"source": "en", "target": "de"}
    with served([f"lm={shown / 'shown'}"], context=2) as client:
        answer = client.post("/translate", json={"q": LINES, **both}).json()
        assert answer == {"translatedText": expected[2]}
        for few in (LINES[:2], LINES[3:]):  # of a request by itself, and as lines of a text
            answer = client.post("/translate", json={"q": "\n".join(few), **both}).json()
            wanted = expected[2][:2] if few == LINES[:2] else expected[2][3:]
            assert answer == {"translatedText": "\n".join(wanted)}
        assert fetched(client, "\n".join(LINES)) == "\n".join(expected[2])
        refused = client.post("/translate", json={"q": LINES, "split": True, **both})
        assert refused.status_code == 400 and "split does not go with" in refused.json()["error"]
    with served([f"lm={shown / 'shown'}"]) as client:
        assert client.post("/translate", json={"q": LINES, **both}).json() == {"translatedText": expected[0]}


def test_a_model_without_a_place_for_them_ends_the_start(shown, talk_model, made):
    why = "--context: plain takes none; a language model does that was imported with {context} in its --prompt"
    refuses(UsageError, why, made, [f"lm={shown / 'shown'}", f"plain={shown / 'plain'}"], context=1)
    refuses(UsageError, "--context: text takes none", made, [f"text={small.GOLDEN}"], context=1)
    refuses(UsageError, "--context does not apply: no model reads text", made, [f"talks={talk_model}"], context=1)
