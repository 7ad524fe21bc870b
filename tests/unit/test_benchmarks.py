"""The pure parts of the benchmarks; the measuring itself is never a test."""

from __future__ import annotations

from benchmarks.image_build import cache_mounts, plain_dockerfile
from benchmarks.measure import Row, interleaved_medians, table


def test_a_row_tells_its_ratio_and_whether_the_aim_is_met() -> None:
    text = table([Row("build", 63.0, 100.0, "s", 0.7), Row("size", 5100.0, 5000.0, "MB", 1.0)], "ours", "theirs")
    assert text.splitlines()[2:] == [
        "| build | 63 s | 100 s | 0.63 | at most 0.7: met |",
        "| size | 5100 MB | 5000 MB | 1.02 | at most 1: MISSED |",
    ]


def test_medians_are_taken_in_turns_and_the_first_run_is_not_counted() -> None:
    order: list[str] = []
    values = {"a": iter([99.0, 1.0, 3.0, 2.0]), "b": iter([99.0, 5.0, 4.0, 6.0])}

    def run(name: str) -> float:
        order.append(name)
        return next(values[name])

    assert interleaved_medians({"a": lambda: run("a"), "b": lambda: run("b")}, 3) == {"a": 2.0, "b": 5.0}
    assert order == ["a", "b"] * 4


def test_the_plain_rival_gets_the_bundle_only_where_there_is_one() -> None:
    assert "secret" not in plain_dockerfile("debian:bookworm-slim", ["torch==2.6.0"], with_ca_bundle=False)
    behind_proxy = plain_dockerfile("debian:bookworm-slim", ["torch==2.6.0"], with_ca_bundle=True)
    assert behind_proxy.count("--mount=type=secret,id=ca_bundle") == 2
    assert "PIP_CERT=/run/secrets/ca_bundle /opt/venv/bin/pip install --no-cache-dir torch==2.6.0" in behind_proxy


def test_only_our_own_cache_mounts_are_dropped() -> None:
    usage = """\
ID:\t\taaa*
Description:\tcached mount /root/.cache/uv from exec /bin/sh with id "envsmith-uv"
Type:\t\texec.cachemount

ID:\t\tbbb
Description:\tcached mount /root/.npm from exec /bin/sh with id "other"
Type:\t\texec.cachemount

ID:\t\tccc
Description:\tlocal source for context of envsmith
Type:\t\tsource.local

Reclaimable:\t1GB
Total:\t\t1GB
"""
    assert cache_mounts(usage, of="envsmith") == ["aaa"]
