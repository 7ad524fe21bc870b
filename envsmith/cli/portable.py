"""`envsmith portable`: write the one-file bundle."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Write the checks as one file that runs wherever Python does.")
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
def portable(path: Path) -> int:
    """Write the checks as one file that runs wherever there is a Python (3.8 or newer), and print its digest.

    PATH is the file to write, for example envsmith.pyz. Run it with: python3 envsmith.pyz check
    """
    from envsmith.portable import write_bundle

    click.echo(write_bundle(path))
    return 0
