"""Check what a template needs of the server that makes its nodes, and this server lacks."""

from difflib import get_close_matches

from muster.domain.template import Reuse, TemplateSpec
from muster.ports.bundle import Ports
from muster.ports.provider import Lack


def lack(ports: Ports, spec: TemplateSpec) -> Lack | None:
    known = sorted({*ports.providers, *ports.cluster_providers})
    if spec.provider not in known:
        why = f"the provider {spec.provider} is not configured on this server"
        return Lack(field="provider", why=f"{why}; {_advice(ports, spec.provider, known)}")
    if spec.kitted and spec.runtime not in ports.runtimes:
        why = f"the runtime {spec.runtime} is not configured on this server"
        return Lack(field="runtime", why=f"{why}: {ports.setup.get(spec.runtime) or 'see its settings'}")
    if spec.reuse is Reuse.ALWAYS and spec.provider in ports.unisolated:
        return Lack(
            field="reuse",
            why=f"a node goes from owner to owner only with a sandbox around each run, and {spec.provider} "
            f'has none here ({ports.unisolated[spec.provider]}): use "same-owner" or "never"',
        )
    return next((found for each in ports.lacks if (found := each(spec)) is not None), None)


def _advice(ports: Ports, provider: str, known: list[str]) -> str:
    if ports.setup.get(provider):
        return ports.setup[provider]
    close = get_close_matches(provider, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    packages = f"a package may bring it: `pip install muster-{provider}`"
    return f"it has {', '.join(known)}; {packages}"
