"""NCCL's own words: recordings of a machine, and lines as its source prints them in other versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator.nccl.log import (
    NETWORK,
    NVLINK_P2P,
    PCIE_P2P,
    SHARED_MEMORY,
    TRANSPORTS,
    Choice,
    NcclLog,
    parse,
)

RECORDED = Path(__file__).parents[2] / "recorded" / "nccl"
INFO = "vm:7:7 [0] NCCL INFO "


def recorded(name: str) -> NcclLog:
    texts = [path.read_text(encoding="utf-8") for path in sorted(RECORDED.glob(f"{name}.*.log"))]
    assert texts
    return parse(texts)


def said(*lines: str) -> NcclLog:
    return parse(["".join(f"{INFO}{line}\n" for line in lines)])


@pytest.mark.parametrize(
    ("name", "transport"), [("nvlink", NVLINK_P2P), ("shared_memory", SHARED_MEMORY), ("network", NETWORK)]
)
def test_what_two_gpus_said(name: str, transport: str) -> None:
    log = recorded(name)
    assert (log.version, log.transport, log.warnings) == ("2.28.9", transport, ())
    assert log.choice("AllReduce", 4000) == Choice("AllReduce", 4000, "ring", "LL")
    assert log.choice("AllReduce", 128 << 20) == Choice("AllReduce", 128 << 20, "ring", "Simple")
    assert log.choice("AllGather", 128 << 20) == Choice("AllGather", 128 << 20, "ring", "Simple")
    assert log.choice("AllReduce", 77) is None


def test_what_nccl_was_told_by_the_environment() -> None:
    assert recorded("nvlink").settings == {}
    assert recorded("network").settings == {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


TWO_GPUS = (  # version 2.14: identifiers are bus numbers, figures have six decimals
    "+ PCI[24.0] - GPU/1B000 (0)",
    "              + NVL[264.0] - NVS/0",
    "+ PCI[24.0] - GPU/1C000 (1)",
    "GPU/1B000 :GPU/1B000 (0/5000.000000/LOC) GPU/1C000 (2/264.000000/{path}) CPU/0 (1/24.000000/PHB) ",
    "GPU/1C000 :GPU/1B000 (2/264.000000/{path}) GPU/1C000 (0/5000.000000/LOC) CPU/0 (1/24.000000/PHB) ",
)


@pytest.mark.parametrize(
    ("path", "transport"),
    [
        ("NVL", NVLINK_P2P),
        ("NVB", NVLINK_P2P),
        ("PIX", PCIE_P2P),
        ("PXB", PCIE_P2P),
        ("PHB", PCIE_P2P),
        ("SYS", PCIE_P2P),
    ],
)
def test_p2p_is_over_the_link_that_the_graph_names(path: str, transport: str) -> None:
    log = said(*(line.format(path=path) for line in TWO_GPUS), "Channel 00/0 : 0[1b000] -> 1[1c000] via P2P/IPC/read")
    assert log.transport == transport


@pytest.mark.parametrize(
    ("via", "transport"),
    [
        ("P2P/direct pointer", NVLINK_P2P),
        ("P2P/CUMEM/read", NVLINK_P2P),
        ("P2P/indirect/3[3]", NVLINK_P2P),
        ("SHM/direct/direct", SHARED_MEMORY),
        ("SHM/CE/direct", SHARED_MEMORY),
        ("NET/Socket/0", NETWORK),
        ("NET/IB/1(0)/GDRDMA", NETWORK),
        ("COLLNET/SHARP/0", NETWORK),
    ],
)
def test_every_transport_by_its_name(via: str, transport: str) -> None:
    graph = (line.format(path="NVL") for line in TWO_GPUS)
    assert said(*graph, f"Channel 03 : 0[0] -> 1[1] via {via}").transport == transport
    assert (
        said(*(line.format(path="NVL") for line in TWO_GPUS), f"Channel 00/0 : 1[1] -> 0[0] [send] via {via}").transport
        == transport
    )


def test_a_ring_is_as_fast_as_its_slowest_link() -> None:
    links = ("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "Channel 00 : 1[1] -> 0[0] via SHM/direct/direct")
    assert said(*(line.format(path="NVL") for line in TWO_GPUS), *links).transport == SHARED_MEMORY


def test_p2p_without_a_graph_is_unknown() -> None:
    assert said("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM").transport.startswith("unknown: P2P, but")
    assert said("nothing of it").transport == "unknown: NCCL's output names no channel"


def test_sums_in_the_switch_need_no_channel() -> None:
    assert said("AllReduce: 1024 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}").transport == NVLINK_P2P


@pytest.mark.parametrize(
    ("line", "choice"),
    [
        # 2.20 to 2.22
        ("4194304 Bytes -> Algo 1 proto 2 time 40.259998", Choice("", 4194304, "ring", "Simple")),
        ("48 Bytes -> Algo 0 proto 0 time 8.4", Choice("", 48, "tree", "LL")),
        # 2.23 and 2.24
        ("AllReduce: 64 Bytes -> Algo 4 proto 2 time 25.5", Choice("AllReduce", 64, "NVLS", "Simple")),
        ("AllReduce: 64 Bytes -> Algo 0 proto 1 time 9.1", Choice("AllReduce", 64, "tree", "LL128")),
        # from 2.25 on
        (
            "AllReduce: 64 Bytes -> Algo TREE proto LL128 channel{Lo..Hi}={0..3}",
            Choice("AllReduce", 64, "tree", "LL128"),
        ),
        (
            "AllGather: 64 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..3}",
            Choice("AllGather", 64, "PAT", "Simple"),
        ),
        (
            "AllReduce: 64 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..3}",
            Choice("AllReduce", 64, "NVLS tree", "Simple"),
        ),
        # a number of a version to come is told as it is
        ("AllReduce: 64 Bytes -> Algo 9 proto 7 time 1.0", Choice("AllReduce", 64, "9", "7")),
    ],
)
def test_what_was_chosen_in_each_version(line: str, choice: Choice) -> None:
    assert said(line).choices == (choice,)
    assert said(line).choice("AllReduce", choice.size_bytes) == (choice if choice.collective != "AllGather" else None)


def test_the_last_choice_for_a_size_counts() -> None:
    log = said("64 Bytes -> Algo 0 proto 0 time 1", "64 Bytes -> Algo 1 proto 2 time 1")
    assert log.choice("AllReduce", 64) == Choice("", 64, "ring", "Simple")


def test_warnings_are_kept_once_each_and_without_their_place() -> None:
    warn = "\n[2026-12-01 00:13:46] vm:7:9 [1] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found\n"
    assert parse([warn, warn, f"{INFO}NCCL version 2.14.3+cuda11.8\n"]).warnings == (
        "Bootstrap : no socket interface found",
    )


words = st.sampled_from(
    [
        "NCCL INFO ",
        "NCCL WARN ",
        "Channel 00/0 : ",
        "0[0] -> 1[1]",
        " via ",
        "P2P/",
        "GPU/0-60",
        " (0)",
        " :",
        "(2/3.1/NVL)",
        "64 Bytes -> Algo ",
        "1",
        " proto ",
        "\n",
        "NCCL version ",
        "2.2",
        "[",
        "]",
        "999999999999999999999",
    ]
)


@given(st.one_of(st.lists(words).map("".join), st.text()))
def test_any_text_can_be_read(text: str) -> None:
    log = parse([text, text])
    assert log.transport in TRANSPORTS or log.transport.startswith("unknown: ")
    assert log.choice("AllReduce", 64) in (None, *log.choices)
