"""Files of Markdown: the oracle is the page of HTML that python-markdown-it renders of source and translation."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("markdown_it")
pytest.importorskip("sentencex")

from markdown_it import MarkdownIt

from dragoman.commands.markdown_files import MarkdownFile
from tests.dragoman.commands.formed import translated
from tests.small import examples

RENDER = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render
PAGE = """\
---
title: Hello world
---

# The *first* title ##

One two three, `code x`. See **bold words** and [the page](http://a.b/c "T t") now.
A second line of it with [ref], [other][ref] and ~~old~~ words; done.\x20\x20
Hard break here. <b>Html</b> &amp; more \\* star.\\
And another.

> Quoted text runs
> over two lines. It is good.

1. Item one
   goes on here.
   - [ ] nested *item*

| Head one | b |
|:--|---|
| cell `a\\|b` x | **two** |
| a | a |

```python
x = "not"
```

    indented code

![A picture](pic.png) and ![](x.png) <https://auto.link/x>
**All bold. Two sentences.** https://example.org/x.[^1]

Setext title
============

<div>
html stays
</div>

***
[ref]: http://ref.example "title"
"""


class Shown(HTMLParser):
    """The tags of a page, and its text; of code and addresses as it is, the rest changed by a function."""

    def __init__(self, change):
        super().__init__(convert_charrefs=True)
        self.change, self.code, self.found = change, 0, []

    def handle_starttag(self, tag, attrs):
        self.code += tag == "code"
        if tag == "br" and self.found and isinstance(self.found[-1], str):  # no matter how a line ends
            self.found += filter(None, [self.found.pop().rstrip()])
        self.found.append((tag, *((key, value.upper() if key == "alt" else value) for key, value in attrs)))

    def handle_endtag(self, tag):
        self.code -= tag == "code"
        self.found.append(("/", tag))

    def handle_data(self, data):
        kept = self.code or "html stays" in data
        data = data if kept else re.sub(r"https://[^\s<[]*|\{name\}|[^h{]+|.", self.changed, data, flags=re.DOTALL)
        if self.found and isinstance(self.found[-1], str):
            data = self.found.pop() + data
        self.found.append(re.sub(r"\s+", " ", data))

    def changed(self, match):
        return match[0] if match[0].startswith(("https://", "{name}")) else self.change(match[0])


def shown(text, change=str):
    page = Shown(change)
    page.feed(RENDER(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)))
    return page.found


def written(path, text):
    path.write_bytes(text.encode())
    return MarkdownFile(path, "en")


def test_the_page_has_other_words_and_the_same_form(tmp_path):
    file = written(tmp_path / "a.md", PAGE)
    made = translated(file, str.upper)
    assert shown(made) == shown(PAGE, str.upper) and made.startswith("---\ntitle: Hello world\n---\n\n# THE *FIRST*")
    assert "![A PICTURE](pic.png)" in made
    code, page, reference = (
        '```python\nx = "not"\n```',
        "<div>\nhtml stays\n</div>",
        '[ref]: http://ref.example "title"',
    )
    assert all(kept in made for kept in (code, page, reference, "    indented code"))
    assert file.remarks == ["marks were lost, so translated in parts between them: lines 7, 21, 30"]
    assert shown(translated(written(tmp_path / "a.md", PAGE), str)) == shown(PAGE)


FRAGMENTS = [
    *("one two", "Three.", "four!  ", "*five*", "**six seven**", "`co de`", "[eight](a_b.html)", "[ref]", "_nine_"),
    *("![ten](p.png)", "<b>", "</b>", "&lt;", "\\*", "*", "_", "[", "]", "~~x~~", "1.", "-", "#", "{name}", "a_b_c"),
    *("  \n", "\\\n", "\n", "(", ")", "!", "***y***", "[*z*][ref]", "**a *b* c**"),
]
BLOCKS = st.lists(
    st.tuples(
        st.sampled_from(["", "# ", "> ", "- ", "3. ", "> - ", "## "]),
        st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BLOCKS, st.booleans())
def test_any_page_has_other_words_and_the_same_form(tmp_path, blocks, spaces):
    joint = " " if spaces else ""
    begun = [["w", *parts] if parts[0][0] == "<" else parts for _, parts in blocks]  # no block of HTML
    page = "\n\n".join(mark + joint.join(parts) for (mark, _), parts in zip(blocks, begun, strict=True))
    page += "\n\n[ref]: a.html\n"
    file = written(tmp_path / "a.md", page)
    made = translated(file, str.upper)
    if not any("left as it is" in remark for remark in file.remarks):
        assert shown(made) == shown(page, str.upper), made


def test_what_a_translation_adds_is_no_mark(tmp_path):
    page = "One *two* three.\n\nFour.\n\n# Five\n\n- six\n\n| a |\n|---|\n| b |\n"
    file = written(tmp_path / "a.md", page)
    made = translated(file, lambda text: f"1. {text.replace('*', '')} [x](y) *z* `c` | <b> - q")
    tags = [one for one in shown(made) if isinstance(one, tuple)]
    assert tags == [one for one in shown(page) if isinstance(one, tuple)]
    assert "1. Four. [x](y) *z* `c` | <b> - q" in shown(made)


def test_lines_keep_their_width_and_what_stands_before_them(tmp_path):
    page = "> - One two three\n>   four five six.\n>\n> Seven\r\neight.\n"
    made = translated(written(tmp_path / "a.md", page.replace("\r", "")), lambda text: text + " and more and more")
    lines = [*("> - One two three", ">   four five six.", ">   and more and", ">   more", ">", "> Seven", "eight.")]
    assert made.splitlines() == [*lines, "and", "more", "and", "more"] and made.endswith("\n")
    assert translated(written(tmp_path / "a.md", "One.\r\n\r\nTwo.\r\n"), str.upper) == "ONE.\r\n\r\nTWO.\r\n"


def test_a_target_without_spaces_is_not_wrapped(tmp_path):
    file = written(tmp_path / "a.md", "One two.\nThree four.\n")
    assert translated(file, lambda text: "你好。", "zh") == "你好。你好。\n"


def test_a_block_without_words_is_not_asked_for(tmp_path):
    page = "`code` 12\n\n[^1]\n\n{{ shortcode }}\n\n<https://a.b>\n"
    assert translated(written(tmp_path / "a.md", page), lambda text: pytest.fail(text)) == page


def test_an_empty_translation_leaves_the_block(tmp_path):
    file = written(tmp_path / "a.md", "# One\n\nTwo.\n")
    assert translated(file, lambda text: "" if text == "One" else text.upper()) == "# One\n\nTWO.\n"
    assert file.remarks == ["left as it is, since the translation would have other marks: line 1"]
