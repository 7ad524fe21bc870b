"""What a check found, and the report that holds all of them."""

from __future__ import annotations

from dataclasses import dataclass

from envsmith.wire.facts import Snapshot

REPORT_SCHEMA = 1

PASS = "pass"
FAIL = "fail"
SKIP = "skip"
TIMEOUT = "timeout"
CRASH = "crash"
STATUSES = (PASS, FAIL, SKIP, TIMEOUT, CRASH)

# How much is run: each level runs what the one before it does, and more.
QUICK = "quick"
STANDARD = "standard"
STRESS = "stress"
LEVELS = (QUICK, STANDARD, STRESS)


@dataclass(frozen=True)
class Metric:
    """One number that a check measured. The unit is the end of the name: "max_error_ratio", "rate_tflops".

    limit: the tolerance it was judged against (measured value must be at most / at least it), or None.
    """

    name: str
    value: float | int | str
    limit: float | int | str | None = None


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check. A skip always says why in `message`, and never certifies anything.

    needs_gpu: the check proves something about a GPU. signal: name such as "SIGSEGV" for a crash.
    ran_on: what it really ran on, for example "cuda:0 NVIDIA H200 (9.0)". log_tail: last output lines.
    optional: skipping it does not stand in the way of a certificate.
    """

    id: str
    title: str
    status: str
    seconds: float
    message: str = ""
    needs_gpu: bool = False
    metrics: tuple[Metric, ...] = ()
    ran_on: tuple[str, ...] = ()
    exit_status: int | None = None
    signal: str | None = None
    log_tail: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class FactValue:
    """What some ranks say of a fact. ranks: "0-6,9"."""

    value: str
    ranks: str


@dataclass(frozen=True)
class FactDifference:
    """A fact that is not the same in all ranks, the most common value first. severity: "fail" or "warning"."""

    fact: str
    severity: str
    values: tuple[FactValue, ...]


@dataclass(frozen=True)
class RankReport:
    """What one process of a launch over several nodes came to.

    status: "pass", "fail", "waited" (another process of its host ran the checks), "missing" (it never arrived) or
    "died". gpus: labels of those that it checked. failing: "id (status): message" of the checks that did not pass.
    """

    rank: int
    host: str
    status: str
    gpus: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterReport:
    """A check over several nodes, whole in the report of rank 0; in the others', `status` is that of the whole.

    launcher: "torchrun", "slurm" or "kubernetes". rank: the one that this report is of. master: "host:port".
    status: "pass", "fail" or "timeout"; message: one line. slow: ranks and links, each with what it is slow in.
    backend: "nccl" with a rank a GPU, or "gloo" with a rank a process; "" where it did not come to that.
    metrics: of the collective over all of them.
    """

    launcher: str
    rank: int
    world: int
    master: str
    status: str
    message: str
    ranks: tuple[RankReport, ...] = ()
    differences: tuple[FactDifference, ...] = ()
    slow: tuple[str, ...] = ()
    backend: str = ""
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class ValidationReport:
    """Everything one run of `check` saw. proved_compute_capabilities: GPUs on which every GPU check passed.

    level: "quick", "standard" or "stress"; "" where no check was run. gpus: labels of the GPUs of the run.
    cluster: of a run on several nodes.
    """

    tool: str
    bundle_digest: str | None
    started_at: str
    seconds: float
    snapshot: Snapshot
    results: tuple[CheckResult, ...]
    proved_compute_capabilities: tuple[str, ...] = ()
    schema: int = REPORT_SCHEMA
    kind: str = "validation"
    level: str = ""
    gpus: tuple[str, ...] = ()
    cluster: ClusterReport | None = None


@dataclass(frozen=True)
class Expectation:
    """What an environment is said to hold, by a plan or by labels. None: nothing was said.

    wheel: "2.6.0+cu124". wheel_cuda: "12.4", or "" for a build without CUDA. cudnn, nccl: "9.1.0",
    "2.21.5"; further parts than the library itself reports are not compared.
    compute_capabilities: machine code in the wheel, "9.0". source: who said so, "plan" or "labels".
    """

    wheel: str | None = None
    wheel_cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    compute_capabilities: tuple[str, ...] | None = None
    source: str = "labels"
