"""`envsmith portable`: write the one-file bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def portable(
    path: Annotated[Path, typer.Argument(help="The file to write, for example envsmith.pyz.", metavar="PATH")],
) -> int:
    """Write the checks as one file that runs wherever there is a Python (3.8 or newer), and print its digest.

    Run it with: python3 envsmith.pyz check
    """
    from envsmith.portable import write_bundle

    typer.echo(write_bundle(path))
    return 0
