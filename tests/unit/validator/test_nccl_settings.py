"""The user's NCCL variables stay as they are; what makes NCCL talk is added where they have not said otherwise."""

from __future__ import annotations

import pytest

from envsmith.validator.nccl.settings import debug_settings, hidden_by, interface_problem, user_settings


def test_nccl_is_made_to_talk_into_a_file() -> None:
    assert debug_settings({}, "/x/log") == {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,TUNING",
        "NCCL_DEBUG_FILE": "/x/log",
    }


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"])
def test_what_the_user_has_set_is_not_set_again(name: str) -> None:
    added = debug_settings({name: "mine"}, "/x/log")
    assert name not in added
    assert len(added) == 2


@pytest.mark.parametrize(
    ("environment", "hidden"),
    [
        ({}, None),
        ({"NCCL_DEBUG": "INFO"}, None),
        ({"NCCL_DEBUG": "trace"}, None),
        ({"NCCL_DEBUG": "WARN"}, "NCCL_DEBUG=WARN"),
        ({"NCCL_DEBUG": "VERSION"}, "NCCL_DEBUG=VERSION"),
        ({"NCCL_DEBUG_SUBSYS": "ALL"}, None),
        ({"NCCL_DEBUG_SUBSYS": "tuning,init,graph,env,net"}, None),
        ({"NCCL_DEBUG_SUBSYS": "INIT,NET"}, "NCCL_DEBUG_SUBSYS=INIT,NET"),
        ({"NCCL_DEBUG_SUBSYS": "^COLL"}, None),
        ({"NCCL_DEBUG_SUBSYS": "^TUNING"}, "NCCL_DEBUG_SUBSYS=^TUNING"),
        ({"NCCL_DEBUG_FILE": "/mine.%p"}, "NCCL_DEBUG_FILE=/mine.%p"),
    ],
)
def test_which_setting_hides_the_answer(environment: dict[str, str], hidden: str | None) -> None:
    assert hidden_by(environment) == hidden


def test_settings_that_a_probe_may_do_without() -> None:
    environment = {
        "NCCL_ALGO": "Tree",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "ALL",
        "NCCL_VERSION": "2.27.3",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_SOCKET_IFNAME": "eth7",
        "PATH": "/bin",
    }
    assert user_settings(environment) == {"NCCL_ALGO": "Tree", "NCCL_SOCKET_IFNAME": "eth7"}


@pytest.mark.parametrize(
    ("value", "good"),
    [
        (None, True),
        ("", True),
        ("eth", True),  # a prefix
        ("eth0", True),
        ("=eth0", True),
        ("=eth", False),
        ("ib,eth", True),
        ("eth0:3", True),
        ("eth7", False),
        ("^eth", True),  # lo is left
        ("^eth,lo", False),
        ("^=eth", True),
    ],
)
def test_whether_the_name_of_an_interface_leaves_one(value: str | None, good: bool) -> None:
    problem = interface_problem(value, ["lo", "eth0"])
    if good:
        assert problem is None
    else:
        assert problem == f"NCCL_SOCKET_IFNAME={value} leaves no network interface here: there are lo, eth0"
