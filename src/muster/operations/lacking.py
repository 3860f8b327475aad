"""What a template needs of the server that makes its nodes, and this server doesn't have."""

from dataclasses import dataclass
from difflib import get_close_matches

from muster.domain.template import TemplateSpec
from muster.ports.bundle import Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    field: str
    """Of the template."""
    why: str


def lack(ports: Ports, spec: TemplateSpec) -> Lack | None:
    known = sorted({*ports.providers, *ports.cluster_providers})
    if spec.provider not in known:
        close = get_close_matches(spec.provider, known, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(known)}"
        return Lack(
            field="provider", why=f"the provider {spec.provider} is not configured on this server; {hint}"
        )
    if spec.runtime.kitted and spec.runtime not in ports.runtimes:
        return Lack(
            field="runtime",
            why=f"the runtime {spec.runtime} is not configured on this server: see docs/github.md",
        )
    return None
