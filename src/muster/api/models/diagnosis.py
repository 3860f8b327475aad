"""Diagnoses over the wire: why a node failed, and what was collected of it."""

from datetime import datetime
from typing import Any, Self

from muster.api.models.base import EXAMPLE_TIME, Out, at, example
from muster.domain.diagnosing import classify
from muster.domain.diagnosis import Bundle, Cause, Diagnosis, Source
from muster.domain.reasons import Reason

EXAMPLE: dict[str, Any] = {
    "cause": "script_failed",
    "summary": "The boot script failed at line 14 in `yq`: exit status 127, command not found.",
    "evidence": {"section": "console", "line": 9, "text": "boot: line 14: yq: command not found"},
    "advice": "fix that line of the boot script and apply the template again",
    "fatal": True,
}


class EvidenceOut(Out):
    section: Source
    line: int
    text: str


class DiagnosisOut(Out):
    model_config = example(EXAMPLE)

    cause: Cause
    summary: str
    evidence: EvidenceOut | None
    advice: str
    fatal: bool

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> Self:
        return cls(**_told(diagnosis))


class SectionOut(Out):
    name: Source
    text: str
    missing: str
    """Why there is no text."""


class BundleOut(DiagnosisOut):
    """The diagnosis, and all that it was made from. Secrets were withheld before it was stored."""

    model_config = example(
        {
            **EXAMPLE,
            "node_id": "node-1hx2k9q0c7m3t8v5e2",
            "reason": "boot_script_failed",
            "detail": "the boot script ended with 127",
            "collected_at": EXAMPLE_TIME,
            "sections": [
                {"name": "phases", "text": "launch  0.4 s\nboot_script  12.0 s", "missing": ""},
                {"name": "console", "text": "", "missing": "the provider has no console of this machine"},
            ],
        }
    )

    node_id: str
    reason: Reason | None
    detail: str
    collected_at: datetime
    sections: list[SectionOut]

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> Self:
        return cls(
            **_told(classify(bundle)),
            node_id=bundle.node_id,
            reason=bundle.reason,
            detail=bundle.detail,
            collected_at=at(bundle.collected_at),
            sections=[
                SectionOut(name=each.name, text=each.text, missing=each.missing) for each in bundle.sections
            ],
        )


def _told(diagnosis: Diagnosis) -> dict[str, Any]:
    proof = diagnosis.evidence
    evidence = EvidenceOut(section=proof.section, line=proof.line, text=proof.text) if proof else None
    return {
        "cause": diagnosis.cause,
        "summary": diagnosis.summary,
        "evidence": evidence,
        "advice": diagnosis.advice,
        "fatal": diagnosis.fatal,
    }
