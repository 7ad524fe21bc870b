"""A certificate for people: what it is about, what was proved on what, what was not."""

from __future__ import annotations

from rich.text import Text

from envsmith.model.certificate import Certificate, Predicate
from envsmith.report.check_text import print_checks, print_rates
from envsmith.report.console import Page, clean, verdict_style


def print_certificate(certificate: Certificate) -> None:
    """Print a certificate to stdout."""
    out = Page()
    predicate = certificate.predicate
    out.line(Text.assemble("Verdict: ", (clean(predicate.verdict), verdict_style(predicate.verdict))))
    for subject in certificate.subject:
        _row(out, predicate.subject_kind, subject.name)
    _row(out, "issued", f"{predicate.issued_at} by {predicate.tool}, {predicate.seconds:.0f} s of checks")
    _print_environment(out, predicate)
    _print_coverage(out, predicate)
    _print_capabilities(out, predicate)
    out.blank()
    print_checks(out, predicate.checks)
    if predicate.rates:
        out.blank()
        print_rates(out, predicate.rates)
    findings = [Text(clean(f"{f.severity.name} {f.rule}: {f.summary}")) for f in predicate.findings]
    _print_section(out, "Findings", findings)
    _print_section(out, "Not looked at", [Text(clean(text)) for text in predicate.not_looked_at])
    _print_digests(out, certificate)


def _print_coverage(out: Page, predicate: Predicate) -> None:
    """The level, and how much was run of what there is."""
    covered = predicate.coverage
    _row(out, "level", predicate.level or "none stated (from before there were levels)")
    if covered is None:
        return
    gpus = str(len(covered.gpus_run)) + (f" of {covered.gpus_present}" if covered.gpus_present is not None else "")
    _row(out, "coverage", f"{len(covered.checks_run)} of {covered.checks_of_level} checks, {gpus} GPUs")
    if covered.left_out:
        _row(out, "left out", ", ".join(covered.left_out))
    for skipped in covered.optional_skipped:
        _row(out, "optional", f"{skipped.check} was skipped: {skipped.reason}")


def _print_capabilities(out: Page, predicate: Predicate) -> None:
    """What was predicted and what was proved, and the difference."""
    predicted, proved = predicate.predicted_compute_capabilities, predicate.proved_compute_capabilities
    source = f" (by the {predicate.predicted_from})" if predicate.predicted_from else ""
    _row(out, "predicted", f"compute capabilities {', '.join(predicted) or 'none stated'}{source}")
    _row(out, "proved", f"compute capabilities {', '.join(proved) or 'none'}")
    unproved = [capability for capability in predicted if capability not in proved]
    if unproved:
        _row(out, "not proved", f"compute capabilities {', '.join(unproved)}: predicted, and not run on any such GPU")


def _print_digests(out: Page, certificate: Certificate) -> None:
    """Every digest on a line of its own, never broken, so that it can be copied."""
    predicate = certificate.predicate
    digests = {f"{predicate.subject_kind}": f"sha256:{s.digest.get('sha256', '')}" for s in certificate.subject}
    digests |= {
        "plan": predicate.plan_digest or "",
        "context": predicate.context_digest or "",
        "matrix": predicate.matrix_digest,
        "bundle": predicate.bundle_digest or "",
        "snapshot": predicate.snapshot_digest,
        "statement": predicate.statement_digest,
    }
    out.blank()
    out.title("Digests")
    for name, value in digests.items():
        if value:
            out.line(Text.assemble((f"  {clean(name):<10} ", "dim"), clean(value)))


def print_verified(certificate: Certificate, against_image: str | None) -> None:
    """Say in one line that a certificate holds, and what was not asked."""
    verdict, level = certificate.predicate.verdict, certificate.predicate.level
    about = f"it is about the image {clean(against_image)}" if against_image else "no image was named to compare with"
    line = Text.assemble("not edited; ", about, "; it says: ", (clean(verdict), verdict_style(verdict)))
    if level:
        line.append(f" at level {clean(level)}")
    Page().line(line)


def _print_environment(out: Page, predicate: Predicate) -> None:
    seen = predicate.environment
    _row(out, "GPUs", ", ".join(seen.gpus) or "none")
    driver_cuda = f", offers CUDA {seen.driver_cuda}" if seen.driver_cuda else ""
    _row(out, "driver", f"{seen.driver}{driver_cuda}" if seen.driver else "none")
    versions = (("torch", seen.torch), ("CUDA", seen.wheel_cuda), ("cuDNN", seen.cudnn), ("NCCL", seen.nccl))
    _row(out, "loaded", ", ".join(f"{name} {said}" for name, said in versions if said) or "nothing known")
    _row(out, "Python", seen.python or "unknown")
    if predicate.plan:
        for substitution in predicate.plan.substitutions:
            _row(out, "replaced", f"{substitution.what} {substitution.requested} by {substitution.used}")


def _print_section(out: Page, title: str, lines: list[Text]) -> None:
    if lines:
        out.blank()
        out.title(title)
    for line in lines:
        out.paragraph(line, 2)


def _row(out: Page, name: str, text: str, indent: int = 0) -> None:
    out.hanging(Text(f"{clean(name):<10}", "dim"), clean(text), indent)
