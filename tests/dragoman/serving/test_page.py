"""The page in a real browser: a person translates, watches subtitles come, keeps them; nothing comes from a network."""

import re
import shutil
from functools import partial

import numpy as np
import pytest
import soundfile

from tests.dragoman.serving.test_openai import sent

uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx2")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium here", allow_module_level=True)
pytestmark = pytest.mark.slow
expect = playwright.expect


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "talk.wav"
    soundfile.write(path, np.random.default_rng(1).normal(0, 0.1, int(2.3 * 16000)), 16000)
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
    assert page.locator("#cues time").all_inner_texts() == [f"00:0{int(one['start'])}" for one in segments]
    for name, kind in {"SRT": "srt", "WebVTT": "vtt", "Text": "text"}.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).read_text() == ask(response_format=kind).text
        assert download.value.suggested_filename == f"talk.{kind if kind != 'text' else 'txt'}"


def test_what_the_microphone_hears_is_written(opened, address):
    page = opened(address)
    page.get_by_role("button", name="Record", exact=True).click()
    page.get_by_role("button", name="Stop recording").wait_for()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Stop recording").click()
    page.get_by_role("button", name="Write subtitles").click()
    page.locator("#downloads").wait_for()
    assert page.locator("#cues li").count() >= 1


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
