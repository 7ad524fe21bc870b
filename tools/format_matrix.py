"""Put matrix/*.json into their one form: one row a line, sorted by key, fields in the order of the dataclass.

    python tools/format_matrix.py            rewrite what is not in form
    python tools/format_matrix.py --check    change nothing, exit 1 if something would change

So a row is one line of a diff, and two people who add rows seldom meet. No row is ever lost: what was written
is read back and compared before the old file goes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from envsmith import resources
from envsmith.compat.load import SCHEMA, TABLES, Table, check_rows, read_rows
from envsmith.errors import DataError


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key by which 2.10.0 comes after 2.9.1 and "ubuntu22.04" after "debian12"."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", text))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DataError(f"a key stands twice in one object: {[key for key, _ in pairs]}", "remove one of the two")
    return found


def formatted(path: Path, table: Table) -> str:
    """Return the text that `path` should have; raises DataError when it is not a sound table."""
    rows = read_rows(path, table)
    check_rows(rows, table)
    plain = json.loads(path.read_text("utf-8"), object_pairs_hook=_once)["rows"]
    names = [field.name for field in fields(table.row)]
    ordered = sorted(plain, key=lambda row: tuple(natural(str(row[name])) for name in table.key))
    lines = [json.dumps({name: row[name] for name in names}) for row in ordered]
    text = f'{{"schema": {SCHEMA}, "kind": "{table.stem}", "rows": [\n' + ",\n".join(lines) + "\n]}\n"
    _same_rows(plain, json.loads(text)["rows"], path)
    return text


def _same_rows(before: list[Any], after: list[Any], path: Path) -> None:
    def bag(rows: list[Any]) -> list[str]:
        return sorted(json.dumps(row, sort_keys=True) for row in rows)

    if bag(before) != bag(after):
        raise DataError(f"formatting {path} would lose or change rows; nothing was written", "report this")


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".json.new")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)


def main(arguments: list[str] | None = None) -> int:
    """Return 0 when everything is, or now is, in form; 1 when --check found something; 2 for a broken file."""
    parser = argparse.ArgumentParser(description="Sort and lay out matrix/*.json, one row a line.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is not in form")
    parser.add_argument("folder", nargs="?", type=Path, help="default: the matrix folder of this checkout")
    options = parser.parse_args(arguments)
    changed = 0
    try:
        folder = options.folder or resources.data_dir("matrix")
        for table in TABLES:
            path = folder / f"{table.stem}.json"
            text = formatted(path, table)
            if text != path.read_text("utf-8"):
                changed += 1
                print(f"{path}: {'not in form' if options.check else 'rewritten'}")
                if not options.check:
                    _replace(path, text)
    except DataError as error:
        print(f"{error.message}\n{error.hint}", file=sys.stderr)
        return 2
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
