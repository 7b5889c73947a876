"""The causes that a diagnosis found, with their evidence, as blocks."""

from __future__ import annotations

from tritune.diagnose.result import Diagnosis
from tritune.report.content.document import Block, Bullets, Paragraph
from tritune.report.content.wording import sentence


def findings(diagnosis: Diagnosis) -> tuple[Block, ...]:
    """Ranked causes with figures, remedies in order and the check that would confirm them."""
    if diagnosis.no_verdict:
        return (Paragraph(sentence(f"No verdict: {diagnosis.no_verdict}")),)
    if not diagnosis.findings:
        return (Paragraph("No cause was found in what this server shows: healthy, as far as can be seen."),)
    blocks: list[Block] = []
    for rank, finding in enumerate(diagnosis.findings, start=1):
        blocks.append(
            Paragraph(
                f"{rank}. {sentence(finding.title)} Confidence: {finding.confidence} (`{finding.slug}`)."
            )
        )
        lines = [sentence(text) for text in finding.evidence]
        for remedy in finding.remedies:
            change = f": `{remedy.change}`" if remedy.change is not None else ""
            lines.append(sentence(f"Remedy: {remedy.text.rstrip('.')}{change}"))
        if finding.check:
            lines.append(sentence(f"To confirm: {finding.check}"))
        if lines:
            blocks.append(Bullets(tuple(lines)))
    return tuple(blocks)


def main_cause(diagnosis: Diagnosis | None) -> str:
    """The first finding in one sentence; empty where there is none."""
    if diagnosis is None or not diagnosis.findings:
        return ""
    first = diagnosis.findings[0]
    return f"{sentence(first.title)} Confidence: {first.confidence}."
