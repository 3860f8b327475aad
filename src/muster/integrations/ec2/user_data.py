"""The program that a machine starts with: constant for a template's content, and free of secrets.

Needs bash and python3. The dead man's switch comes before everything else and is a process of its own: it
powers the machine off when its time has passed, whatever became of the rest, and the agent moves that time
on with every word from the server. The boot script, and what it may know, come with the answer to the join;
it has the usual umask, because others than root use what it installs. The agent closes its own files itself.

Cloud-init runs this once: booted again, a machine would have neither switch nor agent, so it is powered off
then, unless it is another machine, made from an image of this one.
"""

import gzip
from collections.abc import Sequence
from shlex import quote

from muster.domain.errors import Refused
from muster.domain.reasons import Reason

LIMIT = 16 * 1024
"""What AWS takes, before it is encoded for the wire."""
MARGIN = 60
"""Seconds that the switch gives the agent to end the machine itself, in order."""

_SCRIPT = """\
#!/bin/bash
D=/var/lib/muster
umask 077
mkdir -p $D
(: >>/dev/console) 2>/dev/null && exec >>/dev/console 2>&1
up() { cut -d. -f1 /proc/uptime; }
off() {
  echo "muster: powering off: $1"
  shutdown -h now || poweroff -ff
}
B=/var/lib/cloud
mkdir -p $B/scripts/per-boot
cat >$B/scripts/per-boot/muster <<MUSTER_BOOT
#!/bin/sh
[ "\\$(readlink $B/instance)" != "$(readlink $B/instance)" ] && exit
echo "muster: powering off: it was rebooted"
shutdown -h now || poweroff -ff
MUSTER_BOOT
chmod 700 $B/scripts/per-boot/muster
echo $(($(up) + @DEAD_MAN@ + @MARGIN@)) >$D/until
(
  trap '' HUP
  while sleep 5; do
    [ "$(up)" -lt "$(cat $D/until 2>/dev/null || echo 0)" ] || off "the dead man's switch"
  done
) </dev/null &
echo "muster: the dead man's switch is set to @DEAD_MAN@ s"
cat >$D/agent.py <<'MUSTER_AGENT'
@AGENT@MUSTER_AGENT
P=$(command -v python3) || { off "there is no python3 in this image"; exit 1; }
(
  trap '' HUP
  umask 022
  cd /
  $P $D/agent.py run --dir $D/node --identity ec2 --dead-man @DEAD_MAN@ --switch $D/until \\
    --poweroff 'shutdown -h now' @SERVERS@
  off "the agent ended with $?"
) </dev/null &
disown -a
"""


def script(agent: str, *, servers: Sequence[str], dead_man: float) -> str:
    told = " ".join(f"--server {quote(server)}" for server in servers)
    words = {"DEAD_MAN": f"{dead_man:.0f}", "MARGIN": str(MARGIN), "SERVERS": told, "AGENT": agent}
    text = _SCRIPT
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text


def packed(text: str) -> bytes:
    """Compressed, which cloud-init undoes by itself. Raises Refused if it is too large for AWS."""
    data = gzip.compress(text.encode(), 9, mtime=0)
    if len(data) > LIMIT:
        message = (
            f"cannot launch: the user data has {len(data)} bytes compressed, and EC2 takes {LIMIT};"
            " shorten server.public_url, or use an agent that is smaller"
        )
        raise Refused(message, Reason.PROVIDER_REFUSED)
    return data
