"""The page in a real browser: a person translates, watches subtitles come, keeps them; nothing comes from a network."""

import re
import shutil
from functools import partial

import numpy as np
import pytest
import soundfile

from tests.dragoman.serving.test_openai import sent
from tests.dragoman.serving.test_realtime import pcm

uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx2")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium here", allow_module_level=True)
pytestmark = pytest.mark.slow
expect = playwright.expect
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "talk.wav"
    soundfile.write(path, np.frombuffer(pcm(2.3), "<i2"), 24000)
    return path


@pytest.fixture(scope="module")
def address(serving):
    with serving() as address:
        yield address


@pytest.fixture
def opened(talk):
    """Return a function that opens a page whose microphone hears the talk; no request leaves the server."""
    fake = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    fake += [f"--use-file-for-fake-audio-capture={talk}", "--no-sandbox"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=fake)
        asked, wrong = [], []

        def open_page(address, **options):
            page = browser.new_page(**options)
            page.set_default_timeout(60_000)
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.goto(address)
            asked.append(address)
            return page

        yield open_page
        browser.close()
    home = re.match(r"http://127\.0\.0\.1:\d+", asked[-1])[0]
    assert [url for url in asked if not url.startswith((home, f"blob:{home}", "data:,"))] == []
    assert wrong == []


def test_a_text_is_translated_with_the_keyboard_alone(opened, address):
    page = opened(address)
    words = page.get_by_label("Text", exact=True)
    words.wait_for()
    for _ in range(10):
        page.keyboard.press("Tab")
        if words.evaluate("field => field === document.activeElement"):
            break
    page.keyboard.type("one two")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("Translation", exact=True)).to_have_value("zwei eins")
    expect(page.locator("#said")).to_have_text("Translated.")
    assert page.get_by_label("Translation", exact=True).get_attribute("lang") == "de"


@pytest.mark.parametrize(("task", "route"), [("German", "translations"), ("What is said", "transcriptions")])
def test_subtitles_come_and_are_downloaded(opened, address, talk, tmp_path, task, route):
    page = opened(address)
    page.get_by_label("Recording", exact=True).set_input_files(talk)
    page.get_by_label("Write", exact=True).select_option(label=task)
    page.get_by_role("button", name="Write subtitles").click()
    page.locator("#downloads").wait_for()
    client = httpx.Client(base_url=address, timeout=60)
    ask = partial(sent, client, talk.read_bytes(), route=route)
    segments = ask(response_format="verbose_json").json()["segments"]
    assert page.locator("#cues li span").all_inner_texts() == [one["text"] for one in segments]
    assert page.locator("#cues .cut").all_inner_texts() == [one["text"] for one in segments if one.get("cut")] != []
    assert page.locator("#cues time").all_inner_texts() == [f"00:0{int(one['start'])}" for one in segments]
    for name, kind in {"SRT": "srt", "WebVTT": "vtt", "Text": "text"}.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).read_text() == ask(response_format=kind).text
        assert download.value.suggested_filename == f"talk.{kind if kind != 'text' else 'txt'}"


def test_a_text_and_a_recording_do_not_stop_each_other(opened, address, talk):
    page, held = opened(address), []
    page.route("**/translate", lambda route: held.append(route))  # the answer waits
    page.get_by_label("Text", exact=True).fill("one two")
    page.get_by_role("button", name="Translate").click()
    page.get_by_label("Recording", exact=True).set_input_files(talk)
    page.get_by_role("button", name="Write subtitles").click()
    page.locator("#downloads").wait_for()
    held.pop().continue_()
    expect(page.get_by_label("Translation", exact=True)).to_have_value("zwei eins")
    expect(page.locator("#said")).to_have_text("Translated.")


def test_what_the_microphone_hears_is_written(opened, address):
    page = opened(address)
    page.get_by_role("button", name="Record", exact=True).click()
    page.get_by_role("button", name="Stop recording").wait_for()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Stop recording").click()
    page.get_by_role("button", name="Write subtitles").click()
    page.locator("#downloads").wait_for()
    assert page.locator("#cues li").count() >= 1


def test_a_speaker_is_read_in_a_room(opened, address):
    page = opened(address)
    for name in ("German", "What is said"):
        page.get_by_label(name, exact=True).check()
    page.get_by_role("button", name="Start speaking").click()
    page.locator("#room").wait_for()
    expect(page.locator("#live-lines")).not_to_be_empty()
    room = page.locator("#room").get_attribute("href")
    reader = opened(room, locale="de-DE")
    expect(reader.locator("#lines p").nth(1)).not_to_be_empty()
    expect(reader.locator("#state")).to_have_text("Live")
    assert reader.locator("#lines").get_attribute("lang") == "de"
    page.get_by_role("button", name="Stop speaking").click()
    expect(reader.locator("#state")).to_have_text("The speaker has left.")
    expect(page.locator("#live-state")).to_have_text("The room stays open for an hour.")
    client = httpx.Client(timeout=60)
    answer = client.get(f"{room}/text?track=de")
    german, cut = answer.text.splitlines(), int(answer.headers["X-Cut-Segments"])
    assert [text for text in reader.locator("#lines p").all_inner_texts() if text] == german
    assert page.locator("#live-lines").inner_text() == " ".join(german)
    for one in (page.locator("#live-lines .cut"), reader.locator("#lines .cut")):
        assert one.count() == cut > 0
        assert "[…]" in one.first.evaluate("words => getComputedStyle(words, '::after').content")
    reader.get_by_label("Language").select_option(label="English (spoken)")  # by one who comes late
    expect(reader.locator("#lines p").nth(1)).not_to_be_empty()
    spoken = client.get(f"{room}/text?track=transcript").text.splitlines()
    assert [text for text in reader.locator("#lines p").all_inner_texts() if text] == spoken != german
    with reader.expect_download() as download:
        reader.get_by_role("link", name="SRT").click()
    assert download.value.suggested_filename == "transcript.srt"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_room_fits_and_can_be_enlarged(opened, address, width, scheme, tmp_path):
    page = opened(f"{address}/rooms/none", viewport={"width": width, "height": 844}, color_scheme=scheme)
    expect(page.get_by_role("alert")).to_have_text("There is no such room, or it has been closed.")
    page.get_by_role("button", name="Larger letters").click()
    assert page.locator("#lines").evaluate("lines => parseFloat(getComputedStyle(lines).fontSize)") > 30
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_server_with_keys_asks_for_one(opened, serving):
    with serving(keys=["open"]) as address:
        page = opened(address)
        page.get_by_label("Key of this server").fill("no")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("Incorrect API key provided")
        page.get_by_label("Key of this server").fill("open")
        page.keyboard.press("Enter")
        page.get_by_label("Text", exact=True).fill("one two")
        page.get_by_role("button", name="Translate").click()
        expect(page.get_by_label("Translation", exact=True)).to_have_value("zwei eins")
        expect(page.get_by_role("alert")).to_be_hidden()


def test_what_goes_wrong_is_said(opened, address, tmp_path):
    page = opened(address)
    (tmp_path / "no.wav").write_bytes(b"no sound")
    page.get_by_label("Recording", exact=True).set_input_files(tmp_path / "no.wav")
    page.get_by_role("button", name="Write subtitles").click()
    expect(page.get_by_role("alert")).to_contain_text("not readable as sound")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_has_names_for_all_and_enough_contrast(opened, address, width, scheme):
    page = opened(address, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.locator("#speech").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for control in page.locator("input, select, textarea, button, progress").all():
        if control.is_visible():
            name = control.evaluate("c => c.labels?.[0]?.innerText || c.getAttribute('aria-label') || c.innerText")
            assert name.strip()
    parts = "getComputedStyle(document.body)"
    ink, paper = (
        [int(value) for value in re.findall(r"\d+", page.evaluate(f"{parts}.{key}"))[:3]]
        for key in ("color", "backgroundColor")
    )
    assert contrast(ink, paper) >= 7  # AAA of WCAG 2.2


def contrast(one, other):
    """Return the contrast of two colours, as WCAG 2.2 defines it."""
    levels = []
    for colour in (one, other):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (part / 255 for part in colour)]
        levels.append(float(np.dot([0.2126, 0.7152, 0.0722], linear)))
    low, high = sorted(levels)
    return (high + 0.05) / (low + 0.05)
