"""Word errors against the text policy and fairseq's convention; normal forms; chrF++ and spBLEU against sacreBLEU."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers import tokenizer_spm
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from dragoman.reporting.significance import compare
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.metrics import METRICS, unknown
from dragoman.shared.evaluation.scores import score
from dragoman.shared.text import languages
from dragoman.shared.text.normalise import Policy
from dragoman.shared.text.piece_model import train_sentencepiece
from tests.small import refuses

#: Metrics of labels, and those that are not there for every language.
ELSEWHERE = ("spbleu", "meteor", "accuracy", "entity_f1", "exact_match_local", "answer_f1_local")
POLICY = Policy(events=True, punctuation=False, lowercase=True)

#: A sentence of each language, with what its punctuation and case have of their own.
SENTENCES = {
    "en": "“It’s a well-known fact,” he didn’t say: 3.5 % — or 'tis $1,000!",
    "de": "„Straße“ – GROẞ, z.\u202fB. Müller’s 3,5-fache Maß…",
    "fr": "«\u00a0L’œuvre d’aujourd’hui\u00a0», dit-il… ÊTES-VOUS là\u202f?",
    "es": "¿Qué tal? ¡Él dijo: «SÍ»!",
    "it": "Dov’è l’ALBERO? Un po’ più in là.",
    "pt": "Dê-me a «água», por favor; é URGENTE!",
    "ca": "L’il·lustre COL·LECCIÓ d’avui, noi!",
    "oc": "L’òme en·hora, qu’èra!",
    "ro": "Și ţară, într-o „clipă” ŢĂRII.",
    "nl": "’s Avonds in IJsland: foto’s, auto's en Zeeuws-Vlaanderen.",
    "sv": 'EU:s ÅSIKT, sa han – "ja"!',
    "pl": "Żółć, „ŁÓDŹ” – 5‑letni?",
    "cs": "Příliš ŽLUŤOUČKÝ kůň; „ano“!",
    "hu": "Az „ŐRÜLT” hős: nem-e?",
    "lt": "Jis sakė: „LABAS, Į ŠĮ“ – i\u0307\u0301 ir Ì.",
    "tr": 'İstanbul’un IŞIĞI, "DİYARBAKIR" 3,5\'te!',
    "az": "Bakı’nın İŞIĞI; «QIZIL».",
    "vi": "Tiếng VIỆT, “rất đẹp” và khó-học…",
    "ru": "«Ёлка», — сказал ОН; кто-то?",
    "uk": "П’ять об'єктів, м’ЯТА ЇЖАЧКА!",
    "el": "Ο ΟΔΥΣΣΕΑΣ είπε: «ΝΑΙ»· γιατί\u037e",
    "hy": "Ինչպե՞ս ես, ԵՐԵՎԱՆ՛, լավ։",
    "ka": "„საქართველო“ ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ, კი!",
    "he": "צה״ל אמר: ״שָׁלוֹם״, ג׳ירפה־טובה.",
    "yi": 'ייִדיש, צה"ל’ס „וואָרט”!',
    "ar": "قال: «الســلام عليكُم»، نعم؟",
    "fa": "می\u200cخواهم، کتاب\u200cها؛ «آری»؟",
    "ur": 'کیا، "ہاں"۔ شُکرِیّہ!',
    "hi": "क्या, ज़मीन ‘फ़िल्म’ है? हाँ।",
    "bn": "কি, বাংলা ‘ভালো’ য়?",
    "ta": "என்ன? தமிழ் - கோ!",
    "si": 'ශ්\u200dරී ලංකා, "හොඳයි"!',
    "am": "ሰላም፣ እንዴት ነህ።",
    "ko": "“안녕하세요”, 여러분! NEW YORK에서…",
    "zh": "他说：“我（不）知道；你呢？”ＡＢ…约翰·史密斯",
    "ja": "「はい」、ﾃｽﾄです。が・カー…",
    "th": "“สวัสดี” ครับ, NEW York ฯ",
    "my": "မင်္ဂလာပါ။ “ကောင်း”၊",
    "km": "សួស្តី\u200b។ “ល្អ” ៖",
    "bo": "བཀྲ་ཤིས། བདེ་ལེགས།",
}


def errors(hypotheses: list[str], references: list[str], language: str) -> float:
    name = "wer" if languages.spaced(language) else "cer"
    return score(hypotheses, references, language, [name])[0].value


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_what_the_policy_makes_of_a_sentence_has_no_errors(language: str, form: str) -> None:
    """Whichever of the two is the reference; and what differs by a word has some."""
    text = unicodedata.normalize(form, SENTENCES[language])
    changed = POLICY(text, language)
    assert changed and changed != text
    assert errors([changed], [text], language) == errors([text], [changed], language) == 0
    assert score([changed], [changed + "\u4e00 x"], language, ["cer"])[0].value > 0


ALPHABETS = {code: "".join({*text.lower(), *text.upper(), *text}) for code, text in SENTENCES.items()}
MARKS = "’'‘ʼ\"”״-‑–.,:;!?…«»·（）\u200c\u200d\u0301\u0307\u0323 \u00a0\u3000$€5½"


@given(language=st.sampled_from(sorted(SENTENCES)), data=st.data())
def test_what_the_policy_makes_of_any_text_has_no_errors(language: str, data: st.DataObject) -> None:
    signs = st.sampled_from(ALPHABETS[language] + MARKS) | st.characters(codec="utf-8")
    text = data.draw(st.text(signs, min_size=1, max_size=20))
    changed = POLICY(text, language)
    assume(changed)
    assert errors([changed], [text], language) == errors([text], [changed], language) == 0


def test_apostrophes_hyphens_and_decimals() -> None:
    reference = "It’s a well-known fact that he doesn’t smoke 3.5."
    hypothesis = "it's a well known fact that he doesn't smoke 3 5"
    assert errors([hypothesis], [reference], "en") == 0
    assert errors(["its a well known fact that he doesnt smoke 3 5"], [reference], "en") == pytest.approx(100 * 2 / 11)


WORD = st.from_regex(r"[A-Za-z0-9]+('[A-Za-z]+)?", fullmatch=True)
AROUND = st.sampled_from(["", "", ",", ".", "!", "?", ";", ":", "...", '"', ")", "(", "!?", " -- ", " - "])


@given(pairs=st.lists(st.lists(st.tuples(AROUND, WORD, AROUND), min_size=1, max_size=8), min_size=2, max_size=2))
def test_agrees_with_fairseq_on_ascii_words_with_punctuation_around_them(
    pairs: list[list[tuple[str, str, str]]],
) -> None:
    """fairseq's WerScorer, written out: 13a, tokens that are all punctuation left out, lower case."""
    hypothesis, reference = (" ".join("".join(word) for word in words) for words in pairs)

    def tokens(line: str) -> list[str]:
        found = Tokenizer13a()(line).split()
        return [t.lower() for t in found if not all(unicodedata.category(sign).startswith("P") for sign in t)]

    expected = 100 * Levenshtein.distance(tokens(reference), tokens(hypothesis)) / len(tokens(reference))
    assert errors([hypothesis], [reference], "en") == pytest.approx(expected)


@pytest.mark.parametrize("metric", [name for name in METRICS if name not in ELSEWHERE])
@pytest.mark.parametrize(
    ("language", "text"), [("vi", "Tiếng Việt rất đẹp và khó học"), ("ko", "안녕하세요 여러분 정말 반갑습니다 네")]
)
def test_normal_forms_are_one_text(metric: str, language: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "sacrebleu_tokenizer", lambda code: "13a")
    decomposed = unicodedata.normalize("NFD", text)
    [perfect] = score([text], [text], language, [metric])
    for pair in ((decomposed, text), (text, decomposed)):
        [found] = score([pair[0]], [pair[1]], language, [metric])
        assert found.value == perfect.value
        changes = metric in ("wer", "cer", "bleu_bare")  # these change texts in any case, and say so
        assert found.signature == perfect.signature + ("" if changes else "|unicode:nfc")


def test_composed_outputs_can_be_compared_with_others() -> None:
    references = ["Tiếng Việt rất đẹp", "và khó học lắm"]
    metric = METRICS["chrf"]("chrf", [references], "vi")
    decomposed = metric.count([unicodedata.normalize("NFD", line) for line in references])
    found = compare(decomposed, metric.count(references), samples=20, trials=20)
    assert found.difference == 0 and decomposed.signature != metric.count(references).signature
    with pytest.raises(DataError, match="cannot compare chrf"):
        compare(METRICS["chrf++"]("chrf++", [references], "vi").count(references), decomposed)


HYPOTHESES = ["The cat sat on a mat.", "", "It is 5:30 p.m., isn't it?", "你好 world"]
REFERENCES = ["The cat sat on the mat.", "Nothing to say.", "It's 5:30 p.m., isn't it?", "你好，world"]


def test_chrf_with_words_is_sacrebleus() -> None:
    [found] = score(HYPOTHESES, REFERENCES, "en", ["chrf++"])
    oracle = CHRF(word_order=2)
    assert found.value == pytest.approx(oracle.corpus_score(HYPOTHESES, [REFERENCES]).score) and found.higher_is_better
    assert found.signature == str(oracle.get_signature()) and "nw:2" in found.signature
    assert found.value != pytest.approx(score(HYPOTHESES, REFERENCES, "en", ["chrf"])[0].value)


@pytest.fixture
def pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sacreBLEU's folder, empty, without network; return where the pieces of spbleu belong."""
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(tokenizer_spm, "download_file", lambda *_: pytest.fail("a download was tried"))
    (tmp_path / "models").mkdir()
    return tmp_path / "models" / "flores200sacrebleuspm"


def test_spbleu_is_sacrebleus(pieces: Path) -> None:
    train_sentencepiece([*HYPOTHESES, *REFERENCES], pieces, kind="unigram", size=320, normalisation="nmt_nfkc")
    for language in ("en", "zh", "ja"):
        [found] = score(HYPOTHESES, REFERENCES, language, ["spbleu"])
        oracle = BLEU(tokenize="flores200")
        assert found.value == pytest.approx(oracle.corpus_score(HYPOTHESES, [REFERENCES]).score) and found.value > 10
        assert found.signature == str(oracle.get_signature()) and "tok:flores200" in found.signature
        assert found.higher_is_better


def test_spbleu_says_which_file_it_needs(pieces: Path) -> None:
    with pytest.raises(DataError, match=rf"{pieces}: no such .*; spbleu needs there what is at https://.*flores200"):
        score(HYPOTHESES, REFERENCES, "en", ["spbleu"])
    pieces.write_text("<html>not found</html>")
    with pytest.raises(DataError, match=rf"{pieces}: not a SentencePiece model; spbleu needs"):
        score(HYPOTHESES, REFERENCES, "en", ["spbleu"])


def test_metrics_that_there_are_not() -> None:
    for name in ("comet", "COMET-22"):
        assert unknown(name) == (
            f"{name} is a trained model, which this does not load: use `dragoman score --comet FOLDER`"
        )
    assert unknown("blue") == (
        "unknown metric 'blue' (did you mean 'bleu'?); known are bleu, bleu_lc, bleu_bare, spbleu, chrf, chrf++, ter, "
        "wer, cer, wer_raw, cer_raw, accuracy, entity_f1, exact_match, answer_f1, exact_match_local, answer_f1_local, "
        "rouge1, rouge2, rougeL, rougeLsum, meteor"
    )


#: Tags, and the entities that seqeval 1.2.2 finds in them: kind, first and last word.
ENTITIES = {
    "B-A I-A O B-B": [("A", 0, 1), ("B", 3, 3)],
    "I-A I-A I-B O I-A": [("A", 0, 1), ("B", 2, 2), ("A", 4, 4)],
    "B-A B-A I-B E-B": [("A", 0, 0), ("A", 1, 1), ("B", 2, 3)],
    "B-A I-A E-A S-A E-A I-A": [("A", 0, 2), ("A", 3, 3), ("A", 4, 4), ("A", 5, 5)],
    "O O": [],
}


@pytest.mark.parametrize("tags", ENTITIES)
def test_entities_are_seqevals(tags: str) -> None:
    """Of the tags themselves, of none, and of each entity alone."""
    wanted, words = ENTITIES[tags], tags.split()
    counts = METRICS["entity_f1"]("entity_f1", [[tags, tags]], "en").count([tags, " ".join(["O"] * len(words))])
    assert counts.values.tolist() == [[len(wanted)] * 3, [0, 0, len(wanted)]]
    for kind, first, last in wanted:
        alone = ["O"] * len(words)
        alone[first : last + 1] = [f"B-{kind}"] + [f"I-{kind}"] * (last - first)
        found = METRICS["entity_f1"]("entity_f1", [[tags]], "en").count([" ".join(alone)])
        assert found.values.tolist() == [[1, 1, len(wanted)]]
        assert found.score == pytest.approx(200 / (1 + len(wanted)))


def test_labels_are_right_or_wrong() -> None:
    [of_texts] = score(["a", "b", "", "a"], ["a", "a", "a", "a"], "en", ["accuracy"])
    assert (of_texts.value, of_texts.signature, of_texts.higher_is_better) == (50, "labels", True)
    [of_words] = score(["O B-X", "B-X"], ["O B-X O", "O"], "en", ["accuracy"])
    assert of_words.value == pytest.approx(100 * 2 / 4)
    refuses(DataError, "line 2: 'NOUN' is no tag", score, ["O", "O"], ["O", "O NOUN"], "en", ["entity_f1"])
    refuses(DataError, "accuracy is defined for one set", score, ["a"], [["a"], ["b"]], "en", ["accuracy"])
    assert score(["O"], ["O"], "en", ["entity_f1"])[0].value == 0
