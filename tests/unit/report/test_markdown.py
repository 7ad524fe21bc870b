"""Markdown for summary pages: rendered by a CommonMark parser, others' text is the characters it has."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from envsmith.report.console import clean
from envsmith.report.markdown import escape, fenced, markdown
from tests.unit.report.runs import full_run, good_run

GOLDEN = Path(__file__).parents[2] / "golden" / "reports"
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Reader(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_whole_document() -> None:
    assert markdown(good_run()) == (GOLDEN / "good.md").read_text(encoding="utf-8")
    assert markdown(full_run()) == (GOLDEN / "full.md").read_text(encoding="utf-8")


def test_others_text_is_neither_markup_nor_html() -> None:
    page = Reader(RENDERER.render(markdown(full_run())))
    allowed = {"h2", "h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "ul", "li"}
    assert set(page.tags) <= allowed
    assert page.tags.count("table") == 3  # evidence, checks, rates
    assert page.tags.count("tr") == 1 + 1 + 1 + 5 + 1 + 4
    assert page.tags.count("td") == 1 * 3 + 5 * 4 + 4 * 5
    assert "<script>`x`</script> @all [l](http://e)" in page.text
    assert "@" not in markdown(full_run()).replace("```\n", "").split("Last lines of Convolution")[0]


def test_a_command_is_a_block_that_holds_it() -> None:
    page = RENDERER.render(fenced(["echo '````'", "a\x1b[2Jb"], "sh"))
    assert page == "<pre><code class=\"language-sh\">echo '````'\nab\n</code></pre>\n"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_what_is_escaped_renders_as_itself(text: str) -> None:
    said = clean(text).strip()
    page = Reader(RENDERER.render(escape(text)))
    assert set(page.tags) <= {"p"}
    assert " ".join(page.text.split()) == " ".join(said.split())
    cell = Reader(RENDERER.render(f"| a |\n| --- |\n| x {escape(text)} |"))
    assert (cell.tags.count("td"), set(cell.tags)) == (1, {"table", "thead", "tr", "th", "tbody", "td"})
