#!/usr/bin/env python3
"""A stand-in for an external provider binary of GARM, interface v0.1.0. Its machines are records in a
directory.

It behaves as the public ones do, with their weaknesses. A repeated create makes a second machine of the same
name. A delete by name finds nothing and succeeds. An empty list is `null`. Errors are words and exit status
1. The configuration file is JSON: `directory`, and the faults. These are `after_create` (fail once the
machine is there), `no_id`, `refuses` and `duplicates` (exit 31 for a taken name).
"""

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

NOT_FOUND, DUPLICATE = 30, 31
NEEDED = ("name", "tools", "image", "flavor", "os_type", "arch", "pool_id")


class Failed(Exception):
    def __init__(self, words: str, status: int = 1) -> None:
        super().__init__(words)
        self.status = status


def create(root: Path, config: dict[str, Any]) -> object:
    asked = json.load(sys.stdin)
    for key in NEEDED:
        if not asked.get(key):
            raise Failed(f"missing {key}")
    if not any(each["os"] == asked["os_type"] and each["filename"] for each in asked["tools"]):
        raise Failed("failed to find tools")
    if config.get("refuses"):
        raise Failed("quota exceeded")
    if config.get("duplicates") and any(each["name"] == asked["name"] for each in machines(root)):
        raise Failed("instance exists", DUPLICATE)
    made = {
        "provider_id": uuid.uuid4().hex,
        "name": asked["name"],
        "status": "running",
        "pool": os.environ["GARM_POOL_ID"],
        "controller": os.environ["GARM_CONTROLLER_ID"],
        "asked": asked,
    }
    (root / f"{made['provider_id']}.json").write_text(json.dumps(made))
    if config.get("after_create"):
        raise Failed("timed out waiting for an address")
    return {**shown(made), "provider_id": "" if config.get("no_id") else made["provider_id"]}


def machines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(each.read_text()) for each in sorted(root.glob("*.json"))]


def shown(machine: dict[str, Any]) -> dict[str, Any]:
    kept = ("provider_id", "name", "status", "provider_fault")
    return {"os_type": "linux", **{key: machine[key] for key in kept if key in machine}}


def listed(root: Path) -> object:
    pool = os.environ["GARM_POOL_ID"]
    return [shown(each) for each in machines(root) if each["pool"] == pool] or None


def delete(root: Path) -> None:
    path = root / f"{os.environ['GARM_INSTANCE_ID']}.json"
    if path.exists():
        path.unlink()


def main() -> None:
    config = json.loads(Path(os.environ["GARM_PROVIDER_CONFIG_FILE"]).read_text())
    root = Path(config["directory"])
    command = os.environ["GARM_COMMAND"]
    if os.environ["GARM_INTERFACE_VERSION"] != "v0.1.0":
        raise Failed("unsupported interface version")
    if not os.environ.get("GARM_CONTROLLER_ID"):
        raise Failed("missing controller ID")
    if command == "GetVersion":
        print("v0.0.1-fake")
    elif command == "CreateInstance":
        print(json.dumps(create(root, config)))
    elif command == "ListInstances":
        print(json.dumps(listed(root)))
    elif command == "DeleteInstance":
        delete(root)
    else:
        raise Failed(f"unknown command {command}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        print(failed, file=sys.stderr)
        sys.exit(failed.status)
