"""`envsmith check` on a machine with a GPU: the rules find nothing wrong with it, and the pass is a certificate."""

from __future__ import annotations

import sys

import pytest

from envsmith import certify
from envsmith.app.check import CheckOptions, check_host, exit_status
from envsmith.model.certificate import CERTIFIED

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def test_a_healthy_machine_is_certified(tmp_path):
    run = check_host(sys.executable, CheckOptions(), lambda _: None)
    assert run.verdict.status == CERTIFIED, run.verdict.reason
    assert run.diagnosis.findings == ()
    assert [outcome.rule for outcome in run.diagnosis.outcomes if outcome.status != "clean"] == []
    assert exit_status(run, require_gpu=True) == 0

    path = tmp_path / "certificate.json"
    certify.write(certify.issue(run), path)
    predicate = certify.verify(path.read_bytes(), path.name).predicate
    here = {gpu.compute_capability for gpu in run.report.snapshot.gpus or ()}
    assert set(predicate.proved_compute_capabilities) == here
    assert predicate.environment.cudnn
    assert predicate.environment.driver


def test_gpus_that_are_hidden_certify_nothing(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run = check_host(sys.executable, CheckOptions(only=("cuda-kernel-torch",)), lambda _: None)
    assert run.verdict.status != CERTIFIED
    assert exit_status(run, require_gpu=True) == 5
    assert exit_status(run, require_gpu=False) == 0
