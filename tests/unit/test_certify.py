"""Certificates: what earns one, what is in it, and that an edited one never passes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith import certify
from envsmith.compat.load import load_matrix
from envsmith.compat.resolve import resolve
from envsmith.doctor.run import diagnose
from envsmith.errors import EnvsmithError, UsageError, ValidationFailedError
from envsmith.model.certificate import CERTIFIED, FAILED, NOT_ON_GPU, PREDICATE_TYPE, STATEMENT_TYPE, Certificate
from envsmith.model.check_run import CheckRun
from envsmith.model.rates import GOOD as GOOD_RATE
from envsmith.model.rates import INCONCLUSIVE, LOW, NOT_JUDGED, RateJudgement
from envsmith.model.request import BuildRequest
from envsmith.model.verdict import gpus_present, judge
from envsmith.validator.catalogue import ALL
from envsmith.wire.encode import canonical_json
from envsmith.wire.facts import Gap, TorchRuntimeFacts
from envsmith.wire.results import STATUSES, CheckResult, Metric, ValidationReport
from tests.machines import gpu, machine, small_matrix

IMAGE = "sha256:" + "a1" * 32
OTHER_IMAGE = "sha256:" + "b2" * 32
RECORDED = Path(__file__).parents[1] / "recorded" / "certificate"
NOW = datetime(2026, 11, 30, 21, 0, tzinfo=timezone.utc)
RUNTIME = TorchRuntimeFacts("2.6.0+cu124", "12.4", "9.1.0", "2.21.5", ("9.0",), (), True, 1, None)


def result(check_id: str, status: str = "pass", *, needs_gpu: bool = True, message: str = "") -> CheckResult:
    metrics = (Metric("max_error_ratio", 0.25, 1.0),) if status == "pass" else ()
    return CheckResult(check_id, check_id, status, 0.5, message, needs_gpu, metrics, ("cuda:0 NVIDIA H200 (9.0)",))


GOOD = (result("torch-imports", needs_gpu=False), result("cuda-kernel"), result("cudnn-convolution"))


def report(*results: CheckResult, proved: tuple[str, ...] = ("9.0",), **changes) -> ValidationReport:
    snapshot = machine(torch_runtime=RUNTIME, **changes)
    return ValidationReport(
        "envsmith 0.1.0", "sha256:" + "c3" * 32, "2026-11-30T20:59:00Z", 3.5, snapshot, results, proved
    )


def run(checked: ValidationReport, image_digest: str | None = IMAGE, *, complete: bool = True) -> CheckRun:
    diagnosis = diagnose(checked.snapshot, small_matrix())
    return CheckRun("img:tag", checked, diagnosis, judge(checked, complete=complete), image_digest)


def issued(**changes) -> Certificate:
    return certify.issue(replace(run(report(*GOOD)), **changes), issued_at=NOW)


def data_of(certificate: Certificate) -> bytes:
    return canonical_json(certify.to_statement(certificate)).encode("ascii")


def test_every_gpu_check_passed():
    verdict = judge(report(*GOOD))
    assert verdict.status == CERTIFIED
    assert verdict.reason == "all 2 GPU checks passed on NVIDIA H200 (9.0)"


def test_gpus_of_one_kind_are_counted():
    two = report(*GOOD, gpus=(gpu(index=0), gpu(index=1), gpu("NVIDIA GeForce RTX 5090", "12.0", 2)))
    assert judge(two).reason.endswith("on 2 x NVIDIA H200 (9.0), NVIDIA GeForce RTX 5090 (12.0)")


@pytest.mark.parametrize("status", ["fail", "timeout", "crash", "excellent"])
def test_anything_that_failed_is_a_failure(status):
    for needs_gpu in (True, False):
        verdict = judge(report(*GOOD, result("amp-matmul", status, needs_gpu=needs_gpu)))
        assert (verdict.status, "amp-matmul" in verdict.reason) == (FAILED, True)


def test_a_skipped_gpu_check_never_certifies():
    verdict = judge(report(*GOOD, result("nccl-all-reduce", "skip", message="no NCCL in this build")))
    assert verdict.status == NOT_ON_GPU
    assert verdict.reason == "nccl-all-reduce was skipped: no NCCL in this build"


def test_a_skipped_check_without_a_gpu_does_not_stand_in_the_way():
    assert judge(report(*GOOD, result("torchvision", "skip", needs_gpu=False))).status == CERTIFIED


@pytest.mark.parametrize(
    ("checked", "complete"),
    [(report(), True), (report(GOOD[0]), True), (report(*GOOD), False), (report(*GOOD, proved=()), True)],
)
def test_what_was_not_proved_on_a_gpu_is_not_certified(checked, complete):
    assert judge(checked, complete=complete).status == NOT_ON_GPU


@given(st.lists(st.builds(result, st.just("x"), st.sampled_from(STATUSES), needs_gpu=st.booleans()), max_size=5))
def test_the_verdict_by_its_definition(results):
    statuses = {r.status for r in results}
    on_gpu = {r.status for r in results if r.needs_gpu}
    expected = FAILED if statuses & {"fail", "timeout", "crash"} else CERTIFIED if on_gpu == {"pass"} else NOT_ON_GPU
    assert judge(report(*results)).status == expected


def rate(status: str, reason: str = "40% of the peak") -> RateJudgement:
    device = "cuda:0 NVIDIA H200 (9.0)"
    known = (device, "rates", "bfloat16_rate_tflops", 400.0, "TFLOP/s", 989.0, 0.4, 494.5)
    return RateJudgement(*known, "measured", status, reason)


def test_an_optional_check_that_was_skipped_does_not_stand_in_the_way():
    absent = replace(result("nvcc", "skip", message="no nvcc here"), optional=True)
    verdict = judge(report(*GOOD, absent))
    assert verdict.status == CERTIFIED
    assert verdict.reason == (
        "the 2 GPU checks passed on NVIDIA H200 (9.0); skipped, as what they test is not here: nvcc"
    )
    assert judge(report(*GOOD, replace(absent, status="fail"))).status == FAILED
    assert judge(report(absent, replace(absent, message="other"))).status == NOT_ON_GPU


def test_a_low_rate_fails_and_an_inconclusive_one_is_told():
    low = judge(report(*GOOD), rates=(rate(GOOD_RATE), rate(LOW)))
    assert low.status == FAILED
    assert low.reason == "bfloat16 product 400 TFLOP/s on cuda:0 NVIDIA H200 (9.0): 40% of the peak"
    verdict = judge(report(*GOOD), rates=(rate(GOOD_RATE), rate(INCONCLUSIVE)))
    assert verdict.status == CERTIFIED
    assert "1 of 2 rates inconclusive: right results, and the speed is not proved" in verdict.reason
    assert "inconclusive" not in judge(report(*GOOD), rates=(rate(GOOD_RATE), rate(NOT_JUDGED))).reason


def test_a_part_of_the_gpus_is_certified_for_those():
    checked = report(*GOOD, gpus=(gpu(index=0), gpu(index=1)))
    checked = replace(checked, level="standard", gpus=("cuda:0 NVIDIA H200 (9.0)",))
    assert judge(checked).status == CERTIFIED
    assert judge(checked).reason == (
        "all 2 GPU checks of level standard passed on NVIDIA H200 (9.0), 1 of the 2 GPUs here"
    )
    covered = certify.coverage(checked)
    assert covered is not None
    assert (covered.gpus_run, covered.gpus_present) == (("cuda:0 NVIDIA H200 (9.0)",), 2)


def test_coverage_counts_what_the_level_has():
    absent = replace(result("nvcc", "skip", message="no nvcc here"), optional=True)
    of_quick = {check.id for check in ALL if check.level == "quick"}
    of_all = {check.id for check in ALL}
    for level, known in (("quick", of_quick), ("stress", of_all)):
        covered = certify.coverage(replace(report(*GOOD, absent), level=level))
        assert covered is not None
        assert covered.checks_run == ("torch-imports", "cuda-kernel", "cudnn-convolution")
        ours = {"torch-imports", "cuda-kernel", "cudnn-convolution", "nvcc"}
        assert covered.checks_of_level == len(known | ours)
        assert set(covered.left_out) == known - ours
        assert [(skipped.check, skipped.reason) for skipped in covered.optional_skipped] == [("nvcc", "no nvcc here")]
    assert certify.coverage(report(*GOOD)) is None


def test_slices_are_counted_and_not_the_gpu_that_they_are_of():
    cut = replace(gpu(), mig_enabled=True)
    slices = tuple(replace(gpu("NVIDIA H200 MIG 1g.18gb"), is_mig_slice=True, mig_enabled=None) for _ in range(3))
    assert gpus_present(machine(gpus=(cut, *slices, gpu(index=1)))) == 4
    assert gpus_present(machine(gpus=None)) is None


def test_level_coverage_and_rates_are_in_the_certificate():
    checked = replace(report(*GOOD), level="standard", gpus=("cuda:0 NVIDIA H200 (9.0)",))
    certificate = certify.issue(replace(run(checked), rates=(rate(GOOD_RATE),)), issued_at=NOW)
    read = certify.verify(data_of(certificate), "c")
    assert read == certificate
    assert (read.predicate.level, read.predicate.rates) == ("standard", (rate(GOOD_RATE),))
    assert read.predicate.coverage == certify.coverage(checked)


def test_certified_with_a_low_rate_is_not_borne_out():
    certificate = certify.issue(replace(run(report(*GOOD)), rates=(rate(LOW),)), issued_at=NOW)
    with pytest.raises(certify.EditedError, match="do not bear that out"):
        certify.verify(data_of(certificate), "c")


def test_certified_with_an_optional_skip_is_borne_out():
    absent = replace(result("nvcc", "skip", message="no nvcc here"), optional=True)
    certificate = certify.issue(run(report(*GOOD, absent)), issued_at=NOW)
    assert certify.verify(data_of(certificate), "c").predicate.verdict == CERTIFIED


@pytest.mark.parametrize(
    ("level", "least", "holds"),
    [
        ("quick", "quick", True),
        ("quick", "standard", False),
        ("standard", "quick", True),
        ("standard", "standard", True),
        ("standard", "stress", False),
        ("stress", "standard", True),
        ("", "quick", False),
        ("extreme", "quick", False),
    ],
)
def test_the_least_level(level, least, holds):
    certificate = certify.issue(run(replace(report(*GOOD), level=level)), issued_at=NOW)
    if holds:
        certify.require_level(certificate, least, "c")
    else:
        with pytest.raises(ValidationFailedError, match=f"{least} is required"):
            certify.require_level(certificate, least, "c")


def test_an_image_certificate():
    certificate = issued()
    (subject,) = certificate.subject
    predicate = certificate.predicate
    assert (subject.name, subject.digest) == ("img:tag", {"sha256": "a1" * 32})
    assert (predicate.verdict, predicate.subject_kind, predicate.issued_at) == (
        CERTIFIED,
        "image",
        "2026-11-30T21:00:00Z",
    )
    assert predicate.environment.cudnn == "9.1.0"
    assert predicate.environment.gpus == ("NVIDIA H200 (9.0)",)
    assert predicate.checks == GOOD
    assert predicate.matrix_digest == small_matrix().digest


def test_a_host_certificate_is_about_its_snapshot():
    predicate = issued(image_digest=None).predicate
    (subject,) = issued(image_digest=None).subject
    assert predicate.subject_kind == "host"
    assert "sha256:" + subject.digest["sha256"] == predicate.snapshot_digest


def test_nothing_is_proved_by_a_run_that_is_not_certified():
    checked = report(*GOOD, result("nccl-all-reduce", "skip", message="why"))
    predicate = certify.issue(run(checked), issued_at=NOW).predicate
    assert predicate.proved_compute_capabilities == ()
    assert [(skipped.check, skipped.reason) for skipped in predicate.skipped] == [("nccl-all-reduce", "why")]


def test_libraries_that_were_not_loaded_have_no_version():
    checked = report(*GOOD)
    checked = replace(
        checked, snapshot=replace(checked.snapshot, torch_runtime=None, gaps=(Gap("torch_runtime", "failed"),))
    )
    predicate = certify.issue(run(checked), issued_at=NOW).predicate
    assert (predicate.environment.torch, predicate.environment.cudnn) == (None, None)
    assert predicate.not_looked_at == ("torch_runtime: failed",)


def test_the_statement_has_the_key_names_of_in_toto():
    statement = certify.to_statement(issued())
    assert list(statement) == ["_type", "subject", "predicateType", "predicate"]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "certificate.json"
    certify.write(issued(), path)
    assert certify.verify(path.read_bytes(), "certificate.json", IMAGE) == issued()


def test_a_certificate_of_an_earlier_day_is_still_read():
    path = RECORDED / "h200-x2.json"
    certificate = certify.verify(path.read_bytes(), path.name)
    assert certificate.predicate.verdict == CERTIFIED
    assert certificate.predicate.proved_compute_capabilities == ("9.0",)
    assert all(check.status == "pass" for check in certificate.predicate.checks)
    assert (certificate.predicate.level, certificate.predicate.coverage, certificate.predicate.rates) == ("", None, ())


@pytest.mark.parametrize(
    ("name", "kind", "skipped"),
    [
        ("h200-host.json", "host", {"nccl-bandwidth"}),
        # as another user than root, without a network, every capability dropped, on a read-only file system
        ("h200-container.json", "image", {"nccl-bandwidth", "torch-compile", "triton-kernel", "nvcc-kernel"}),
    ],
)
def test_certificates_of_a_real_gpu_state_level_coverage_and_rates(name, kind, skipped):
    predicate = certify.verify((RECORDED / name).read_bytes(), name).predicate
    assert (predicate.verdict, predicate.subject_kind, predicate.level) == (CERTIFIED, kind, "standard")
    assert len(predicate.coverage.gpus_run) == predicate.coverage.gpus_present == 1
    assert {one.check for one in predicate.skipped} == skipped
    assert all(check.optional for check in predicate.checks if check.id in skipped)
    assert [rate.status for rate in predicate.rates] == ["good"] * 8
    assert all(rate.floor < rate.measured < rate.peak and rate.basis for rate in predicate.rates)


def test_formatting_is_no_edit():
    pretty = json.dumps(json.loads(data_of(issued())), indent=2).encode()
    assert certify.verify(pretty, "c") == issued()


def test_another_image_is_refused():
    with pytest.raises(ValidationFailedError, match=f"c is about another image.*not {OTHER_IMAGE}") as caught:
        certify.verify(data_of(issued()), "c", OTHER_IMAGE)
    assert caught.value.exit_status == 5


def test_a_host_certificate_is_no_image_certificate():
    host = issued(image_digest=None)
    digest = "sha256:" + host.subject[0].digest["sha256"]
    with pytest.raises(ValidationFailedError, match="certifies a host"):
        certify.verify(data_of(host), "c", digest)


def edit(path: str, value: object, data: bytes | None = None) -> bytes:
    """The certificate with one value changed; path: "predicate.verdict"."""
    statement = json.loads(data or data_of(issued()))
    *folders, name = path.split(".")
    place = statement
    for folder in folders:
        place = place[int(folder) if isinstance(place, list) else folder]
    place[name] = value
    return json.dumps(statement).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("predicate.verdict", "failed"),
        ("predicate.checks.1.status", "skip"),
        ("predicate.checks.1.metrics.0.value", 0.2),
        ("predicate.environment.driver", "999.0"),
        ("predicate.a_new_field", 1),
        ("predicate.statement_digest", "sha256:" + "0" * 64),
        ("predicate.statement_digest", None),
        ("subject.0.digest", {"sha256": "b2" * 32}),
        ("another", "key"),
    ],
)
def test_an_edited_file_is_refused(path, value):
    with pytest.raises(certify.EditedError, match="c was edited") as caught:
        certify.verify(edit(path, value), "c")
    assert caught.value.exit_status == 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1"),
        ("predicateType", "https://slsa.dev/provenance/v1"),
        ("predicate.schema", 2),
        ("predicate.schema", True),
        ("predicate", []),
    ],
)
def test_an_unknown_schema_is_refused_by_name(path, value):
    with pytest.raises(UsageError, match=r"c is no certificate of a kind known here: (_type|predicate)"):
        certify.verify(edit(path, value), "c")


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"hello", b"[]", b"null", b'{"_type": NaN}', b'{"a": 1e999}', b'{"a":1,"a":1}', b"[" * 100_000],
)
def test_what_is_no_json_object_is_refused(data):
    with pytest.raises(UsageError, match="c is not a certificate"):
        certify.verify(data, "c")


def test_a_digest_over_the_wrong_shape_does_not_help():
    statement = json.loads(edit("predicate.checks", "none"))
    statement["predicate"]["statement_digest"] = certify._statement_digest(statement)
    with pytest.raises(UsageError, match="c is not a usable certificate"):
        certify.verify(json.dumps(statement).encode(), "c")


ISSUED = data_of(issued())


@given(st.integers(0, len(ISSUED) - 1), st.integers(0, 255))
def test_no_changed_byte_changes_what_is_believed(position, byte):
    changed = ISSUED[:position] + bytes([byte]) + ISSUED[position + 1 :]
    try:
        believed = certify.verify(changed, "c")
    except EnvsmithError:
        return
    # what still verifies says the same: 1e-05 and 1E-05, for example
    assert data_of(believed) == ISSUED


TEXT = st.text(max_size=30)
RESULTS = st.builds(
    CheckResult,
    id=TEXT,
    title=TEXT,
    status=st.sampled_from(STATUSES),
    seconds=st.floats(0, 1e6),
    message=TEXT,
    needs_gpu=st.booleans(),
    metrics=st.lists(st.builds(Metric, TEXT, st.one_of(st.integers(-(2**53), 2**53), TEXT), st.none())).map(tuple),
    ran_on=st.lists(TEXT).map(tuple),
    exit_status=st.none() | st.integers(0, 255),
    log_tail=st.lists(TEXT).map(tuple),
)


@given(st.lists(RESULTS, max_size=3), st.sampled_from([IMAGE, None]))
def test_any_certificate_survives_the_way_through_a_file(results, image_digest):
    certificate = certify.issue(run(report(*results), image_digest), issued_at=NOW)
    assert certify.verify(data_of(certificate), "c", image_digest) == certificate


def test_however_deeply_it_is_nested_it_is_refused_with_one_clear_error():
    start = f'{{"_type": "{STATEMENT_TYPE}", "predicateType": "{PREDICATE_TYPE}", "predicate": {{"schema": 1, "x": '
    for depth in range(100, 1100):
        with pytest.raises((UsageError, certify.EditedError)):
            certify.verify((start + "[" * depth + "]" * depth + "}}").encode(), "deep.json")


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("predicate.checks.1.status", "skip", "own checks do not bear that out"),
        ("predicate.checks.0.status", "excellent", "own checks do not bear that out"),
        ("predicate.checks", [], "own checks do not bear that out"),
        ("predicate.proved_compute_capabilities", [], "own checks do not bear that out"),
        ("predicate.plan.torch", "2.7.1", "another plan than the one whose digest it states"),
    ],
)
def test_parts_that_contradict_each_other_are_refused_whatever_the_digest_says(path, value, reason):
    plan = resolve(BuildRequest(torch="2.6", cuda="12.1"), load_matrix())
    data = data_of(certify.issue(run(report(*GOOD)), plan=plan, issued_at=NOW))
    assert certify.verify(data, "c").predicate.plan == plan
    statement = json.loads(edit(path, value, data))
    statement["predicate"]["statement_digest"] = certify._statement_digest(statement)
    with pytest.raises(certify.EditedError, match=reason):
        certify.verify(json.dumps(statement).encode(), "c")
