"""PATH as an image's configuration sets it."""

from __future__ import annotations

import pytest

from envsmith.engine.interpreter import image_path


@pytest.mark.parametrize(
    ("attributes", "path"),
    [
        ({"Config": {"Env": ["A=1", "PATH=/opt/venv/bin:/usr/bin"]}}, "/opt/venv/bin:/usr/bin"),
        ({"Config": {"Env": ["XPATH=/x"]}}, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ({"Config": {"Env": None}}, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ({}, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ],
)
def test_path_of_an_image(attributes: dict[str, object], path: str) -> None:
    assert image_path(attributes) == path
