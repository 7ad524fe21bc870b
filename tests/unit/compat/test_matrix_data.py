"""What every row of every table owes its reader, and the tables of images and systems."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest

from envsmith import resources
from envsmith.compat.load import TABLES, load_matrix
from envsmith.model.versions import minor_of

MATRIX = load_matrix()
OFFERED = ("stable", "experimental", "legacy")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_every_row_says_where_its_figures_are_from(table: Any) -> None:
    for row in getattr(MATRIX, table.field):
        assert len(row.source) >= 8, row
        assert datetime.date(2026, 1, 1) <= datetime.date.fromisoformat(row.checked), row
        text = f"{row.source} {row.note}"
        assert text.isascii(), row
        assert not re.search(r"(^|[\s(])/(work|tmp|home|root|opt)\b|file://|corpus|code index", text), row
        assert len(row.note) < 600, row


def test_the_readme_lists_every_file_with_its_number_of_rows() -> None:
    readme = (resources.data_dir("matrix") / "README.md").read_text("utf-8")
    listed = {
        stem: int(count) for stem, count in re.findall(r"^\| `(\w+)\.json` \|[^|]*\| (\d+) \|", readme, re.MULTILINE)
    }
    assert listed == {table.stem: len(getattr(MATRIX, table.field)) for table in TABLES}


def test_operating_systems_have_their_own_python_and_glibc() -> None:
    found = {row.os: (row.python, row.glibc) for row in MATRIX.operating_systems}
    assert found == {
        "debian11": ("3.9", "2.31"),
        "debian12": ("3.11", "2.36"),
        "debian13": ("3.13", "2.41"),
        "ubuntu22.04": ("3.10", "2.35"),
        "ubuntu24.04": ("3.12", "2.39"),
    }
    slim = {row.os: f"{row.image}:{row.tag}" for row in MATRIX.base_images if row.flavour == "slim"}
    assert slim["debian12"] == "debian:bookworm-slim"
    assert slim["ubuntu24.04"] == "ubuntu:24.04"
    assert slim.keys() == found.keys()


def test_tags_of_base_images_say_what_their_row_says() -> None:
    systems = {row.os for row in MATRIX.operating_systems}
    toolkits = {row.cuda for row in MATRIX.toolkits}
    for row in MATRIX.base_images:
        assert row.os in systems
        assert set(row.platforms) <= {"linux/amd64", "linux/arm64"}
        assert row.cuda_compat == (row.image == "nvidia/cuda")
        assert (row.cuda is None) == (row.flavour == "slim")
        if row.cuda is not None:
            cudnn = re.fullmatch(rf"{re.escape(row.cuda)}-(cudnn\d?-)?{row.flavour}-{row.os}", row.tag)
            assert cudnn is not None, row.tag
            assert (cudnn[1] is None) == (row.cudnn is None), row.tag
            assert row.cuda in toolkits


def test_every_offered_cuda_has_a_devel_image() -> None:
    devel = {
        minor_of(row.cuda)
        for row in MATRIX.base_images
        if row.flavour == "devel" and row.os == "ubuntu22.04" and row.cuda
    }
    wheels = {build.wheel_cuda for build in MATRIX.torch_builds if build.wheel_cuda and build.status in OFFERED}
    assert wheels - devel == {"11.6"}  # its images were deleted long ago
    assert "12.1.1-devel-ubuntu22.04" in {row.tag for row in MATRIX.base_images}
