"""`envsmith certificate`: show one, and verify one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envsmith.cli.request import format_option, output_format
from envsmith.errors import UsageError, ValidationFailedError

if TYPE_CHECKING:
    from envsmith.model.certificate import Certificate

_BYTES_MAX = 16 * 1024**2  # a certificate takes some 20 kB
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@click.group()
def certificate() -> None:
    """Show or verify a certificate."""


_file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


@certificate.command(short_help="Print what a certificate says.")
@_file_argument
@format_option
def show(file: Path, output: str) -> int:
    """Print what a certificate says, once its content is what was issued."""
    as_json = output_format(output) == "json"
    read, data = _read(file, None)
    if as_json:
        from envsmith.model.certificate import CertificateDocument
        from envsmith.report.documents import print_json

        # as it was issued: a field that it does not have, or that only a newer envsmith knows, is part of the digest
        print_json(CertificateDocument(json.loads(data)))
    else:
        from envsmith.report.certificate_text import print_certificate

        print_certificate(read)
    return 0


@certificate.command()
@_file_argument
@click.option("--image", metavar="IMAGE", help="The image it must be about: a name, or sha256:...")
@click.option("--require-gpu", is_flag=True, help="Exit 5 unless it certifies a GPU.")
@click.option("--level", metavar="NAME", help="Exit 5 unless its checks were of this level or a higher one.")
def verify(file: Path, image: str | None, require_gpu: bool, level: str | None) -> int:
    """Hold a certificate against itself, and against an image.

    Exit status: 0 it holds; 1 the file was edited; 2 it is no certificate of a kind known here; 5 it is about
    another image, about checks that failed, or of a lower level than required (quick < standard < stress).
    """
    from envsmith.certify import require_level
    from envsmith.model.certificate import CERTIFIED, FAILED

    least = _level(level) if level is not None else None
    read, _ = _read(file, _digest_of(image) if image is not None else None)
    verdict = read.predicate.verdict
    if verdict == FAILED or (require_gpu and verdict != CERTIFIED):
        raise ValidationFailedError(f"{file} was not edited, and it says: {verdict}", "see envsmith certificate show")
    if least is not None:
        require_level(read, least, str(file))
    from envsmith.report.certificate_text import print_verified

    print_verified(read, against_image=image)
    return 0


def _level(name: str) -> str:
    """The name of a level. Raises UsageError for another."""
    from envsmith.wire.results import LEVELS

    if name not in LEVELS:
        raise UsageError(f"--level {name!r} is not a level", f"the levels are {', '.join(LEVELS)}")
    return name


def _read(file: Path, image_digest: str | None) -> tuple[Certificate, bytes]:
    """What the file says, and its bytes. Raises what certify.verify raises."""
    from envsmith.certify import verify as verify_data
    from envsmith.files import read_within

    data = read_within(file, _BYTES_MAX, "certificate")
    return verify_data(data, str(file), image_digest), data


def _digest_of(image: str) -> str:
    """The digest of an image; one that is a digest itself needs no engine."""
    if _DIGEST.fullmatch(image):
        return image
    from envsmith.engine.docker import DockerEngine

    with DockerEngine() as engine:
        return engine.inspect(image).digest
