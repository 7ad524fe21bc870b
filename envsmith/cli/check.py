"""`envsmith check`: what is wrong here, or in an image, and what works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envsmith.cli.request import output_format
from envsmith.errors import UsageError
from envsmith.wire.results import LEVELS, STANDARD

if TYPE_CHECKING:
    from envsmith.app.check import CheckOptions
    from envsmith.model.check_run import CheckRun
    from envsmith.wire.results import ClusterReport

_SNAPSHOT_BYTES_MAX = 64 * 1024**2  # one with 20,000 packages takes some 5 MB
_IDS = "id; several times, or with commas, for several."
_FILE = click.Path(path_type=Path)


@click.command(short_help="Find what is wrong with an environment, and prove what works.")
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter, or folder of an environment. Default: the active one, else one with torch.",
)
@click.option("--image", metavar="IMAGE", help="Check inside a container of this image instead.")
@click.option("--snapshot", type=_FILE, help="Judge this saved snapshot; look at and run nothing.")
@click.option("--facts", is_flag=True, help="Only look; run no check.")
@click.option("--list", "list_checks", is_flag=True, help="List the checks, and run none.")
@click.option("--level", type=click.Choice(LEVELS), default=STANDARD, show_default=True, help="How much is run.")
@click.option("--seconds", type=float, metavar="N", help="With --level stress: how long each such check works. [60]")
@click.option("--gpus", metavar="WHICH", multiple=True, help="Run on these GPUs: indexes or UUIDs, with commas.")
@click.option("--only", metavar="ID", multiple=True, help=f"Run only the check with this {_IDS}")
@click.option("--skip", metavar="ID", multiple=True, help=f"Leave out the check with this {_IDS}")
@click.option("--require-gpu", is_flag=True, help="Exit 5 unless every GPU check ran and passed.")
@click.option("--no-cluster", is_flag=True, help="Under torchrun, srun or a Kubernetes Job: this machine alone.")
@click.option("--cluster-timeout", type=float, metavar="N", help="How many seconds nodes wait for each other. [300]")
@click.option("--certificate", type=_FILE, help="Write the certificate to this file.")
@click.option("--save-snapshot", type=_FILE, help="Write what was seen to this file, as JSON.")
@click.option("--redact", is_flag=True, help="Leave names and serial numbers out of the saved snapshot.")
@click.option(
    "--format",
    "output",
    metavar="NAME",
    default="text",
    show_default=True,
    help="text, json, junit (XML for CI systems) or markdown (for their summary pages).",
)
def check(
    python: str | None,
    image: str | None,
    snapshot: Path | None,
    facts: bool,
    list_checks: bool,
    level: str,
    seconds: float | None,
    gpus: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    require_gpu: bool,
    no_cluster: bool,
    cluster_timeout: float | None,
    certificate: Path | None,
    save_snapshot: Path | None,
    redact: bool,
    output: str,
) -> int:
    """Find what is wrong with a PyTorch + CUDA environment, and prove on the GPU what works.

    Exit status: 0 good, or nothing to run on a GPU; 1 findings that are errors; 5 a check failed.
    """
    output = output_format(output, "junit", "markdown")
    if list_checks:
        _list(as_json=output == "json")
        return 0
    _refuse_contradictions(
        {"--python": python, "--image": image, "--snapshot": snapshot},
        {"--snapshot": snapshot, "--facts": facts},
        {"--certificate": certificate, "--require-gpu": require_gpu, "--only": only, "--skip": skip, "--gpus": gpus},
    )
    if redact and save_snapshot is None:
        raise UsageError(
            "--redact is about the file of --save-snapshot, and that is not given", "add --save-snapshot FILE"
        )
    from envsmith.app.check import CheckOptions, exit_status
    from envsmith.files import require_writable

    for path in filter(None, (certificate, save_snapshot)):
        require_writable(path)

    options = CheckOptions(
        facts, _words(only), _words(skip), level=level, seconds=seconds, gpus=_words(gpus), require_gpu=require_gpu,
        no_cluster=no_cluster, cluster_timeout=cluster_timeout,
    )  # fmt: skip
    if gpus and not options.gpus:
        raise UsageError("--gpus names none", "give indexes or UUIDs, with commas")
    run = _judge_file(snapshot) if snapshot else _run(python, image, options)
    if run.report.cluster and run.report.cluster.rank != 0:
        _follow(run.report.cluster)
    else:
        run = _write(run, certificate, save_snapshot, redact)
        _print(run, output)
    status = exit_status(run, require_gpu=require_gpu)
    _explain(status, run)
    return status


def _follow(cluster: ClusterReport) -> None:
    """Say who reports: rank 0 prints the answer and writes the files."""
    from envsmith.validator.cluster.report import follower_line

    click.echo(follower_line(cluster), err=True)


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def _list(*, as_json: bool) -> None:
    """Print the checks that there are."""
    from envsmith.validator.selection import listing, listing_lines

    if as_json:
        from envsmith.wire.encode import canonical_json

        click.echo(canonical_json({"schema": 1, "kind": "checks", "checks": listing()}))
    else:
        click.echo("\n".join(listing_lines()))


def _refuse_contradictions(
    sources: dict[str, object], not_run: dict[str, object], need_a_run: dict[str, object]
) -> None:
    """Raise UsageError for two sources at once, and for options that need checks where none is run."""
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", "name one thing to check")
    without = [name for name, value in not_run.items() if value]
    if len(without) > 1:
        raise UsageError(f"{' and '.join(without)} exclude each other", "a saved snapshot holds its facts already")
    in_vain = [name for name, value in need_a_run.items() if value]
    if without and in_vain:
        raise UsageError(f"{in_vain[0]} needs checks to be run, and {without[0]} runs none", f"leave out {without[0]}")


def _judge_file(path: Path) -> CheckRun:
    from envsmith.app.check import judge_snapshot
    from envsmith.files import read_within

    return judge_snapshot(read_within(path, _SNAPSHOT_BYTES_MAX, "snapshot"), str(path))


def _run(python: str | None, image: str | None, options: CheckOptions) -> CheckRun:
    """Check the image if one is named, else this machine, and tell of it while it goes on."""
    from envsmith.app.check import check_host, check_image
    from envsmith.report.check_progress import CheckProgress

    with CheckProgress(image or "this machine") as progress:
        if image is None:
            return check_host(python, options, progress.on_event)
        from envsmith.engine.docker import DockerEngine

        with DockerEngine() as engine:
            return check_image(engine, image, options, progress.on_event)


def _write(run: CheckRun, certificate: Path | None, save_snapshot: Path | None, redacted: bool) -> CheckRun:
    """Write the files that were asked for; the run then knows its certificate."""
    from dataclasses import replace

    from envsmith import certify, files
    from envsmith.probe.redact import redact as redact_identifiers
    from envsmith.wire.encode import canonical_json

    if save_snapshot is not None:
        snapshot = redact_identifiers(run.report.snapshot) if redacted else run.report.snapshot
        files.write_whole(save_snapshot, canonical_json(snapshot).encode("ascii") + b"\n")
    if certificate is None:
        return run
    certify.write(certify.issue(run), certificate)
    return replace(run, certificate=str(certificate))


def _explain(status: int, run: CheckRun) -> None:
    """Say on stderr why the exit status is not 0, where the verdict, which is the last line, does not."""
    from envsmith.app.check import EXIT_FAILED, EXIT_FINDINGS
    from envsmith.model.certificate import FAILED
    from envsmith.model.findings import Severity

    if status == EXIT_FINDINGS:
        errors = sorted({f.rule for f in run.diagnosis.findings if f.severity == Severity.ERROR})
        click.echo(f"envsmith: exit status {status}: {', '.join(errors)} found errors", err=True)
    elif status == EXIT_FAILED and run.verdict.status != FAILED:
        click.echo(f"envsmith: exit status {status}: a GPU is required, and no GPU check passed", err=True)


def _print(run: CheckRun, output: str) -> None:
    """Print the answer in the format asked for."""
    if output == "json":
        from envsmith.report.documents import print_json

        print_json(run)
    elif output == "junit":
        from envsmith.report.junit import print_junit

        print_junit(run)
    elif output == "markdown":
        from envsmith.report.markdown import print_markdown

        print_markdown(run)
    else:
        from envsmith.report.check_text import print_check

        print_check(run)
