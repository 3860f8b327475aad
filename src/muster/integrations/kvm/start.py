"""The script that a guest runs once, as root, from /sys/firmware/qemu_fw_cfg/by_name/opt/muster/start/raw.

It is the script of every whole machine, after a head that says where the secret is and how to power off. All
machines of a template get the same script. The secret carries the machine's id, and the script hides it from
jobs before the agent starts. `guest_identity` passes it to the agent, at once or after a snapshot.
"""

from collections.abc import Sequence
from pathlib import Path

from muster.agent.machine_script import machine_script, self_extracting
from muster.agent.minifier import bare
from muster.integrations.kvm import guest_identity
from muster.integrations.kvm.tables import KVM

_HEAD = """\
#!/bin/bash
export MUSTER_MACHINE_DIR=/var/lib/muster
export MUSTER_POWEROFF='poweroff -f || busybox poweroff -f || echo o >/proc/sysrq-trigger'
(: >>/dev/console) 2>/dev/null && exec >>/dev/console 2>&1
exec 5</sys/firmware/qemu_fw_cfg/by_name/opt/muster/secret/raw
mount -t tmpfs -o mode=0700 muster /sys/firmware/qemu_fw_cfg
I=$(cat <<'MUSTER_IDENTITY'
@READER@MUSTER_IDENTITY
)
exec 3< <(python3 -I -S -c "$I" <&5)
exec 5<&-
"""
# Once: Python's parser fails if several threads use it at the same time.
_READER = bare(Path(guest_identity.__file__).read_text(encoding="utf-8"))


def start_script(agent: str, servers: Sequence[str], dead_man: float) -> str:
    identity = ("--secret-fd", "3", "--proof-prefix", f"{KVM}:")
    script = machine_script(agent, servers=servers, dead_man=dead_man, identity=identity)
    # Packed: a guest reads its firmware files slowly, and the more so the larger they are.
    return self_extracting(_HEAD.replace("@READER@", _READER) + script)
