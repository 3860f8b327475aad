"""Diagnoses: why a node failed, and what was collected of it."""

from typing import Annotated, Any, Self

from msgspec import Meta

from muster.domain import diagnosis as domain
from muster.domain.reasons import Reason
from muster.wire.base import EXAMPLE_TIME, Shape, Time, convert

Cause = Annotated[str, Meta(extra_json_schema={"enum": [*domain.Cause]})]
Source = Annotated[str, Meta(extra_json_schema={"enum": [*domain.Source]})]
"""Words: a newer server may have more of them."""
EXAMPLE: dict[str, Any] = {
    "cause": "script_failed",
    "summary": "The boot script failed at line 14 in `yq`: exit status 127, command not found.",
    "evidence": {"section": "console", "line": 9, "text": "boot: line 14: yq: command not found"},
    "advice": "fix that line of the boot script and apply the template again",
    "fatal": True,
}


class Evidence(Shape):
    section: Source
    line: int
    text: str


class Diagnosis(Shape):
    EXAMPLE = EXAMPLE

    cause: Cause
    summary: str
    evidence: Evidence | None = None
    advice: str = ""
    fatal: bool = False


class Section(Shape):
    name: Source
    text: str = ""
    missing: str = ""
    """Why there is no text."""


class Bundle(Diagnosis):
    """The diagnosis, and all that it was made from. Secrets were withheld before it was stored."""

    EXAMPLE = {
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

    node_id: str
    reason: Reason | None = None
    detail: str = ""
    collected_at: Time
    sections: tuple[Section, ...] = ()

    @classmethod
    def of(cls, bundle: domain.Bundle, found: domain.Diagnosis) -> Self:
        return convert(
            cls,
            bundle,
            cause=found.cause,
            summary=found.summary,
            evidence=found.evidence,
            advice=found.advice,
            fatal=found.fatal,
        )
