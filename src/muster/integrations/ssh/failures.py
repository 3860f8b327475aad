"""Why ssh didn't bring us to a host, in words that say what to do."""

import re

from muster.integrations.ssh import bundle

_NO_PROGRAM = 127
_CHANGED = re.compile(r"[Hh]ost key for (\S+) has changed|IDENTIFICATION HAS CHANGED")
_UNKNOWN = re.compile(r"host key is known for (\S+) and you have requested strict")


def explained(host: str, said: str, code: int | None) -> str:
    """`said` is what ssh wrote to standard error, `code` how it ended; None: it hung."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    changed = [each.group(1) for each in _CHANGED.finditer(said)]
    if changed:
        name = next(filter(None, changed), host)
        return (
            f"the host key of {name} has changed. If you changed it, accept it with"
            f" `muster hosts trust {name}`. If not, another machine may pretend to be it"
        )
    unknown = _UNKNOWN.search(said)
    if unknown or "Host key verification failed" in said:
        name = unknown.group(1).strip("[]") if unknown else host
        return f"the host key of {name} is not known: compare and accept it with `muster hosts trust {name}`"
    if "Permission denied" in said:
        return f"it refused the key ({last}): check user and key of [hosts.{host}], and its authorized_keys"
    if bundle.LEAST_PYTHON in said:
        return f"{last.removeprefix('muster: ')}: set python under [hosts.{host}]"
    if code == _NO_PROGRAM:
        return f"it can't start Python ({last}): install 3.8 or later, or set python of [hosts.{host}]"
    if code is None and not last:
        return "no answer in time"
    return last or f"ssh ended with {code} and said nothing"
