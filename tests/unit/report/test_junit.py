"""JUnit XML: what the two common schemas allow, and nothing of others' text that XML cannot hold."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from envsmith.report.junit import _legal, junit
from tests.unit.report.runs import full_run, good_run

# What Jenkins' junit-10.xsd and Surefire's surefire-test-report-3.0.xsd both accept: attributes (required, optional)
# and children in their order.
ELEMENTS = {
    "testsuite": ({"name", "tests", "failures", "errors", "skipped"}, {"time"}, ("properties", "testcase")),
    "properties": (set(), set(), ("property",)),
    "property": ({"name", "value"}, set(), ()),
    "testcase": ({"name", "time"}, {"classname"}, ("failure", "skipped", "error", "system-out")),
    "failure": ({"type"}, {"message"}, ()),
    "error": ({"type"}, {"message"}, ()),
    "skipped": (set(), {"message"}, ()),
    "system-out": (set(), set(), ()),
}
TIME = re.compile(r"\d*(\.\d{0,3})?")


def problems(element: ET.Element) -> list[str]:
    """What of the element, or below it, the schemas do not allow."""
    required, optional, children = ELEMENTS[element.tag]
    found = [f"{element.tag}: lacks {name}" for name in required - set(element.attrib)]
    found += [f"{element.tag}: has {name}" for name in set(element.attrib) - required - optional]
    if "time" in element.attrib and not TIME.fullmatch(element.attrib["time"]):
        found.append(f"{element.tag}: time {element.attrib['time']}")
    tags = [child.tag for child in element]
    found += [f"{element.tag}: contains {tag}" for tag in tags if tag not in children]
    if not found and tags != sorted(tags, key=children.index):
        found.append(f"{element.tag}: children in the order {tags}")
    return found + [problem for child in element if child.tag in ELEMENTS for problem in problems(child)]


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text.encode("utf-8"))


def cases(suite: ET.Element) -> dict[str, ET.Element]:
    return {f"{case.attrib['classname']}:{case.attrib['name']}": case for case in suite.iter("testcase")}


def test_the_document_is_of_the_schemas() -> None:
    for run in (full_run(), good_run()):
        text = junit(run)
        assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuite ')
        assert problems(parsed(text)) == []


def test_counts_are_those_of_the_cases() -> None:
    suite = parsed(junit(full_run()))
    outcomes = Counter(child.tag for case in suite.iter("testcase") for child in case)
    assert int(suite.attrib["tests"]) == len(list(suite.iter("testcase"))) == 6 + 5 + 4
    assert (outcomes["failure"], outcomes["error"], outcomes["skipped"]) == (3, 3, 4)
    assert (suite.attrib["failures"], suite.attrib["errors"], suite.attrib["skipped"]) == ("3", "3", "4")


def test_each_outcome_is_told_as_what_it_is() -> None:
    found = cases(parsed(junit(full_run())))
    kinds = {name: [child.tag for child in case if child.tag != "system-out"] for name, case in found.items()}
    assert kinds["envsmith.checks:rates"] == []
    assert kinds["envsmith.checks:conv"] == ["failure"]
    assert kinds["envsmith.checks:nccl"] == ["error"]
    assert kinds["envsmith.checks:nvcc"] == ["skipped"]
    assert kinds["envsmith.rules:ENV002 driver-too-old"] == ["failure"]
    assert kinds["envsmith.rules:ENV401 small-shm"] == []  # a warning
    crash = found["envsmith.checks:kernel"].find("error")
    assert crash is not None
    assert crash.attrib == {"type": "crash", "message": "SIGSEGV"}
    assert found["envsmith.checks:conv"].attrib["time"] == "1.250"


def test_the_output_holds_numbers_last_lines_and_fixes() -> None:
    found = cases(parsed(junit(full_run())))
    rates = found["envsmith.checks:rates"].findtext("system-out", "")
    assert rates == "bfloat16 705 TFLOP/s\ncuda0.bfloat16_rate_tflops = 705.2"
    assert "last ``` words" in found["envsmith.checks:conv"].findtext("system-out", "")
    fix = found["envsmith.rules:ENV002 driver-too-old"].findtext("system-out", "")
    assert "fix: Install a newer driver\n$ sudo apt-get install nvidia-driver-580\n$ echo '````'" in fix


def test_others_text_is_text() -> None:
    message = cases(parsed(junit(full_run())))["envsmith.checks:conv"].find("failure")
    assert message is not None
    assert message.text == 'ab[31mcd | <script>`x`</script> @all [l](http://e) ]]> & "q"\n# head'


@given(st.text(st.characters(), max_size=30))
def test_whatever_is_said_xml_can_hold_it(text: str) -> None:
    element = ET.Element("a", b=_legal(text))
    element.text = _legal(text)
    assert ET.fromstring(ET.tostring(element, encoding="unicode").encode("utf-8")).tag == "a"
