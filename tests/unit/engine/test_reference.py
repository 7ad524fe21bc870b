"""Names of images: what Docker accepts, and hostile text refused before it gets near Docker."""

from __future__ import annotations

import pytest

from envsmith.engine.reference import check_reference, check_tag
from envsmith.errors import UsageError


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("torch", "torch:latest"),
        ("envsmith/torch:2.6.0-cu124-py311-debian12", "envsmith/torch:2.6.0-cu124-py311-debian12"),
        ("registry.example.com:5000/team/torch:2.6", "registry.example.com:5000/team/torch:2.6"),
        ("Host.Example/torch", "Host.Example/torch:latest"),
        ("a__b/c-d.e:T_1", "a__b/c-d.e:T_1"),
    ],
)
def test_good_names(text: str, full: str) -> None:
    assert check_tag(text) == full


@pytest.mark.parametrize(
    "text",
    [
        "", "Torch", "torch:", "torch:a b", "torch;rm -rf /", "$(id)", "`id`:1", "{{ 7*7 }}", "torch\n", "../x", "-x",
        "torch:2.6@sha256:" + "0" * 64, "a" * 300, "0" * 64, "torch:" + "x" * 129, "torch:2.6\x1b[31m", "a//b", "a/",
    ],
)  # fmt: skip
def test_bad_names_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="not the name of a Docker image") as caught:
        check_tag(text)
    assert "envsmith/torch:2.6" in caught.value.hint
    assert "\x1b" not in caught.value.message


_DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    "text", ["torch", "a/b:1", f"a/b@{_DIGEST}", f"a/b:1@{_DIGEST}", _DIGEST, "0a" * 32, "8d1e31be4a48"]
)
def test_names_and_ids_of_images_that_exist(text: str) -> None:
    assert check_reference(text) == text


@pytest.mark.parametrize("text", ["", "x y", "a@sha256:12", "$(id)", "a\n", "--rm", "../x", "a@b@c", "\x1b[31m"])
def test_what_can_name_no_image_is_refused_before_the_engine_is_asked(text: str) -> None:
    with pytest.raises(UsageError, match="not the name or the id of a Docker image") as caught:
        check_reference(text)
    assert "\x1b" not in caught.value.message
