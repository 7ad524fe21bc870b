"""Write docs/rules/ and docs/checks/ from the rules and checks themselves: a page each, and an index of both.

    python tools/gen_docs.py            write
    python tools/gen_docs.py --check    exit 1 if a page is not what its rule or check says

Pages of what is gone are removed.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from envsmith.doctor.catalogue import all_rules  # noqa: E402 - after the checkout is on the path
from envsmith.doctor.rule import MATRIX, SITE, Rule  # noqa: E402
from envsmith.validator.catalogue import ALL  # noqa: E402
from envsmith.validator.check import GPU_ALONE, MACHINE_ALONE, Check  # noqa: E402
from envsmith.wire.results import LEVELS  # noqa: E402

DOCS = ROOT / "docs"
NOTICE = "<!-- Written by tools/gen_docs.py from the rule's own file. Edit that. -->"
CHECK_NOTICE = "<!-- Written by tools/gen_docs.py from the check's own file. Edit that. -->"
PROVES = "What it proves: "
BESIDE = {
    GPU_ALONE: "nothing else on the same GPU, as it measures there",
    MACHINE_ALONE: "nothing else, as it measures the host's memory or the links between GPUs",
}
FAMILIES = {
    "0": "Machine and driver",
    "1": "Python and torch",
    "2": "Libraries",
    "3": "Containers",
    "4": "Several GPUs and limits",
}


def pages() -> dict[str, str]:
    """Path below docs/ -> text of every page that there should be."""
    rules = all_rules()
    return {
        "rules/README.md": index(rules),
        **{f"rules/{rule.id}.md": page(rule) for rule in rules},
        "checks/README.md": check_index(ALL),
        **{f"checks/{check.id}.md": check_page(check) for check in ALL},
    }


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


def explanation(check: Check) -> tuple[str, str]:
    """What the check is, and what it proves and what else its file says, each as paragraphs."""
    paragraphs = (sys.modules[check.body.__module__].__doc__ or "").strip().split("\n\n")
    proofs = [paragraph for paragraph in paragraphs if paragraph.startswith(PROVES)]
    if not proofs:
        raise ValueError(f"{check.id}: its file's docstring has no paragraph that begins with {PROVES!r}")
    before, after = paragraphs[: paragraphs.index(proofs[0])], paragraphs[paragraphs.index(proofs[0]) :]
    proof = after[0].removeprefix(PROVES)
    return "\n\n".join(before), "\n\n".join([proof[:1].upper() + proof[1:], *after[1:]])


def check_page(check: Check) -> str:
    """The page of one check: its file's docstring, and what else its decorator says."""
    what, proves = explanation(check)
    needs = [word for word, needed in (("a GPU", check.needs_gpu), ("PyTorch", check.needs_torch)) if needed]
    rests = ", ".join(f"[{required}]({required}.md)" for required in check.requires)
    lines = [
        f"# {check.id}",
        "",
        CHECK_NOTICE,
        "",
        f"{check.title}.",
        "",
        f"- Levels: {', '.join(LEVELS[LEVELS.index(check.level) :])}",
        f"- Runs: {'once for each GPU, in a process that sees only that one' if check.per_gpu else 'once'}",
        *([f"- Beside it runs: {BESIDE[check.claims]}"] if check.claims in BESIDE else []),
        f"- Time limit: {check.limit_s:.0f} s",
        *([f"- Needs: {' and '.join(needs)}"] if needs else []),
        *([f"- Is skipped if one of these did not pass: {rests}"] if rests else []),
        *(["- Optional: skipping it does not stand in the way of a certificate"] if check.optional else []),
        "",
        what,
        "",
        "## What it proves",
        "",
        proves,
    ]
    return "\n".join(lines) + "\n"


def check_index(checks: tuple[Check, ...]) -> str:
    """All checks in their order."""
    lines = [
        "# Checks",
        "",
        CHECK_NOTICE,
        "",
        "What `envsmith check` runs, in the order of its report. [checks.md](../checks.md) says how they run.",
        "",
        "| Check | What | From level | Needs a GPU | Optional |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| [{check.id}]({check.id}.md) | {check.title} | {check.level} | {'yes' if check.needs_gpu else 'no'} "
        f"| {'yes' if check.optional else 'no'} |"
        for check in checks
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    wanted = pages()
    folders = sorted({name.partition("/")[0] for name in wanted})
    existing = {
        f"{folder}/{path.name}": path.read_text(encoding="utf-8")
        for folder in folders
        for path in (DOCS / folder).glob("*.md")
    }
    differing = sorted(name for name in wanted.keys() | existing.keys() if wanted.get(name) != existing.get(name))
    if arguments == ["--check"]:
        for name in differing:
            print(f"docs/{name} is not what the code says; run python tools/gen_docs.py", file=sys.stderr)
        return 1 if differing else 0
    for folder in folders:
        (DOCS / folder).mkdir(parents=True, exist_ok=True)
    for name in differing:
        if name in wanted:
            (DOCS / name).write_text(wanted[name], encoding="utf-8")
        else:
            (DOCS / name).unlink()
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
