"""Write docs/rules/ from the rules themselves: a page a rule, and an index.

    python tools/gen_docs.py            write
    python tools/gen_docs.py --check    exit 1 if a page is not what its rule says

Pages of rules that are gone are removed.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from envsmith.doctor.catalogue import all_rules  # noqa: E402 - after the checkout is on the path
from envsmith.doctor.rule import MATRIX, SITE, Rule  # noqa: E402

FOLDER = ROOT / "docs" / "rules"
NOTICE = "<!-- Written by tools/gen_docs.py from the rule's own file. Edit that. -->"
FAMILIES = {
    "0": "Machine and driver",
    "1": "Python and torch",
    "2": "Libraries",
    "3": "Containers",
    "4": "Several GPUs and limits",
}


def pages() -> dict[str, str]:
    """File name -> text of every page that there should be."""
    rules = all_rules()
    return {"README.md": index(rules), **{f"{rule.id}.md": page(rule) for rule in rules}}


def page(rule: Rule) -> str:
    """The page of one rule: its explanation, and what else its decorator says."""
    title, _, explanation = rule.explanation.partition("\n\n")
    facts = [need for need in rule.needs if need.fact not in {MATRIX, SITE}]
    required = ", ".join(f"`{need.fact}`" for need in facts if not need.optional)
    optional = ", ".join(f"`{need.fact}`" for need in facts if need.optional)
    lines = [
        f"# {rule.id} {rule.name}",
        "",
        NOTICE,
        "",
        title,
        "",
        f"- At worst: {rule.severity.name}",
        f"- Since: envsmith {rule.since}",
        *([f"- Looks at: {required}"] if required else []),
        *([f"- Looks, where it can, at: {optional}"] if optional else []),
        *(
            [f"- Can follow from: {', '.join(f'[{cause}]({cause}.md)' for cause in rule.because_of)}"]
            * bool(rule.because_of)
        ),
        "",
        explanation,
    ]
    return "\n".join(lines) + "\n"


def index(rules: tuple[Rule, ...]) -> str:
    """All rules by family."""
    lines = [
        "# Rules",
        "",
        NOTICE,
        "",
        "What `envsmith check` looks for. A rule that lacks a fact says so instead of calling it fine.",
    ]
    for digit, family in FAMILIES.items():
        members = [rule for rule in rules if rule.id[3] == digit]
        lines += ["", f"## {family}", "", "| Rule | Problem | At worst |", "|---|---|---|"] if members else []
        for rule in members:
            problem = " ".join(rule.explanation.partition("\n\n")[0].split())
            lines.append(f"| [{rule.id} {rule.name}]({rule.id}.md) | {problem} | {rule.severity.name} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    wanted = pages()
    existing = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    differing = sorted(name for name in wanted.keys() | existing.keys() if wanted.get(name) != existing.get(name))
    if arguments == ["--check"]:
        for name in differing:
            print(f"docs/rules/{name} is not what the rules say; run python tools/gen_docs.py", file=sys.stderr)
        return 1 if differing else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in differing:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
        print(f"docs/rules/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
