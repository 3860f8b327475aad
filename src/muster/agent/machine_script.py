"""The script that a whole machine starts with: it sets the dead man's switch, then runs the agent.

The script needs bash and python3. The dead man's switch comes first and is a process of its own. It powers
the machine off when its time has passed, whatever happens to the rest. The agent moves that time on with
every answer of the server. The template's boot script comes with the answer to the join. So the script is
the same for every machine of a template, except for a secret that some providers put in.

Cloud-init runs the script once. A machine that boots again has neither switch nor agent, so it is powered
off. A machine made from an image of this one has another instance id, and starts as new.

An executable may run the script as a process, and not on a machine of its own. Then it sets two variables.
MUSTER_MACHINE_DIR says where to keep files (else /var/lib/muster). MUSTER_POWEROFF is the command that ends
the machine (else `shutdown -h now || poweroff -ff`).
"""

import base64
import gzip
from collections.abc import Sequence
from shlex import quote

MARGIN = 60
"""Seconds that the switch gives the agent to end the machine itself, in order."""

_SCRIPT = """\
#!/bin/bash
D=${MUSTER_MACHINE_DIR:-/var/lib/muster}
OFF=${MUSTER_POWEROFF:-shutdown -h now || poweroff -ff}
umask 077
mkdir -p "$D"
[ -z "$MUSTER_MACHINE_DIR" ] && (: >>/dev/console) 2>/dev/null && exec >>/dev/console 2>&1
up() { cut -d. -f1 /proc/uptime; }
off() {
  echo "muster: powering off: $1"
  sh -c "$OFF"
}
B=/var/lib/cloud
if [ -z "$MUSTER_MACHINE_DIR" ]; then
mkdir -p $B/scripts/per-boot
cat >$B/scripts/per-boot/muster <<MUSTER_BOOT
#!/bin/sh
[ "\\$(readlink $B/instance)" != "$(readlink $B/instance)" ] && exit
echo "muster: powering off: it was rebooted"
$OFF
MUSTER_BOOT
chmod 700 $B/scripts/per-boot/muster
fi
echo $(($(up) + @DEAD_MAN@ + @MARGIN@)) >"$D/until"
(
  trap '' HUP
  while sleep 5; do
    [ "$(up)" -lt "$(cat "$D/until" 2>/dev/null || echo 0)" ] || off "the dead man's switch"
  done
) </dev/null &
echo "muster: the dead man's switch is set to @DEAD_MAN@ s"
cat >"$D/agent.py" <<'MUSTER_AGENT'
@AGENT@MUSTER_AGENT
P=$(command -v python3) || { off "there is no python3 in this image"; exit 1; }
(
  trap '' HUP
  umask 022
  cd /
  $P "$D/agent.py" run --dir "$D/node" @IDENTITY@ --dead-man @DEAD_MAN@ --switch "$D/until" \\
    --poweroff "$OFF" @SERVERS@@SECRET@
  off "the agent ended with $?"
) </dev/null &
disown -a
"""
_HERE_DOCUMENT = " 3<<'MUSTER_SECRET'\n{secret}\nMUSTER_SECRET"
_PACKED = "#!/bin/bash\n. <(base64 -d <<'MUSTER_SCRIPT' | gzip -d\n{packed}\nMUSTER_SCRIPT\n)\n"


def machine_script(
    agent: str, *, servers: Sequence[str], dead_man: float, identity: Sequence[str], secret: str = ""
) -> str:
    """Return the script. `identity` are the agent's options that say how the machine proves who it is; the
    agent reads a `secret` from descriptor 3 (`--secret-fd 3`)."""
    words = {
        "DEAD_MAN": f"{dead_man:.0f}",
        "MARGIN": str(MARGIN),
        "IDENTITY": " ".join(map(quote, identity)),
        "SERVERS": " ".join(f"--server {quote(server)}" for server in servers),
        "SECRET": _HERE_DOCUMENT.format(secret=secret) if secret else "",
        "AGENT": agent,
    }
    text = _SCRIPT
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text


def compressed(script: str) -> bytes:
    """Return the script as gzip. Cloud-init undoes it by itself. The same script gives the same bytes."""
    return gzip.compress(script.encode(), 9, mtime=0)


def self_extracting(script: str) -> str:
    """Return a bash script of printable characters that does the same and takes less than half the room."""
    return _PACKED.format(packed=base64.b64encode(compressed(script)).decode())
