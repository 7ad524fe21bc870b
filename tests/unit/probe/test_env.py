"""Only listed variables, and no secret of theirs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsmith.probe.env import MASK, VALUE_LIMIT_CHARS, env_facts, is_listed, safe_value
from envsmith.probe.look import Look
from envsmith.wire.facts import EnvVar


def test_listed_variables_only_and_sorted() -> None:
    environ = {"NCCL_DEBUG": "INFO", "HOME": "/home/a", "CUDA_VISIBLE_DEVICES": "", "AWS_SECRET_ACCESS_KEY": "x"}
    assert env_facts(Look(), environ) == (EnvVar("CUDA_VISIBLE_DEVICES", ""), EnvVar("NCCL_DEBUG", "INFO"))


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("LD_LIBRARY_PATH", True),
        ("LD_PRELOAD", True),
        ("PYTORCH_CUDA_ALLOC_CONF", True),
        ("SLURM_GPUS_ON_NODE", True),
        ("NVSHMEM_DISABLE_NVLS", True),
        ("SLURM_JWT", False),
        ("PATH", False),
        ("USER", False),
        ("SSH_AUTH_SOCK", False),
    ],
)
def test_listed(name: str, listed: bool) -> None:
    assert is_listed(name) is listed


@pytest.mark.parametrize("name", ["CONDA_TOKEN", "NVIDIA_API_KEY", "TORCH_PASSWORD", "CUDA_Secret", "NCCL_AUTH"])
def test_secrets_by_name(name: str) -> None:
    assert safe_value(name, "hunter2") == MASK


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://me:hunter2@host/simple", "https://***@host/simple"),
        ("https://hunter2@host/a https://b:c@d", "https://***@host/a https://***@d"),
        ("https://host/a@b", "https://host/a@b"),
        ("https://me:hunter@2@host/simple", "https://***@host/simple"),
        ("a@b", "a@b"),
    ],
)
def test_credentials_in_addresses(value: str, shown: str) -> None:
    assert safe_value("CONDA_CHANNEL_ALIAS", value) == shown


def test_long_values_are_cut() -> None:
    value = safe_value("LD_LIBRARY_PATH", "x" * 100_000)
    assert value.startswith("x" * VALUE_LIMIT_CHARS + "...")
    assert "100000 characters" in value


@settings(max_examples=100, deadline=None)
@given(name=st.text(max_size=30), value=st.text(), secret=st.from_regex(r"[a-z0-9:]{6,20}", fullmatch=True))
def test_no_value_lets_a_password_in_an_address_through(name: str, value: str, secret: str) -> None:
    assert f"//{secret}@" not in safe_value(name, f"{value} http://{secret}@example.org")
