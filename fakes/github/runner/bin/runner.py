#!/usr/bin/env python3
"""The small GitHub's runner, for Python 3.8 or later: configured by words or a just-in-time configuration."""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PREFIX = "ACTIONS_RUNNER_INPUT_"


class Stopped(Exception):
    pass


def stop(*_: Any) -> None:
    raise Stopped


def ask(method: str, url: str, path: str, credential: str = "", body: Any = None) -> tuple[int, Any]:
    headers = {"Authorization": "Bearer " + credential, "Content-Type": "application/json"}
    request = urllib.request.Request(
        url + path,
        data=json.dumps(body).encode() if body is not None else None,
        headers=headers,
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, None


def inputs() -> dict[str, str]:
    """Read what came by the environment, and remove it there."""
    return {
        name[len(PREFIX) :].lower(): os.environ.pop(name)
        for name in list(os.environ)
        if name.startswith(PREFIX)
    }


def keep(name: str, content: bytes) -> None:
    path = os.path.join(ROOT, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def kept(name: str) -> Any:
    with open(os.path.join(ROOT, name)) as file:
        return json.load(file)


def configure(options: argparse.Namespace) -> int:
    if os.path.exists(os.path.join(ROOT, ".runner")):
        print("Cannot configure the runner because it is already configured.")
        return 1
    parts = urlsplit(options.url)
    url = parts.scheme + "://" + parts.netloc
    asked = {
        "token": options.token,
        "scope": parts.path.strip("/"),
        "name": options.name,
        "labels": [
            *([] if options.no_default_labels else ["self-hosted", "Linux", "X64"]),
            *filter(None, options.labels.split(",")),
        ],
        "group": options.runnergroup,
        "ephemeral": options.ephemeral,
        "replace": options.replace,
    }
    status, body = ask("POST", url, "/_runner/register", body=asked)
    if status == 422:
        print("Could not find any self-hosted runner group named %r." % options.runnergroup)
        return 1
    if status != 201:
        print("Http response code: %d from 'POST %s'" % (status, url))
        return 1
    settings = {
        "agentId": body["id"],
        "serverUrl": url,
        "ephemeral": options.ephemeral,
        "workFolder": options.work,
    }
    keep(".runner", json.dumps(settings).encode())
    keep(".credentials", json.dumps({"scheme": "fake", "data": body["credential"]}).encode())
    print("√ Runner successfully added")
    return 0


def run(options: argparse.Namespace) -> int:
    if options.jitconfig:
        for name, content in json.loads(base64.b64decode(options.jitconfig)).items():
            keep(name, base64.b64decode(content))
    if not os.path.exists(os.path.join(ROOT, ".runner")):
        print("Not configured. Run config.sh to configure the runner.")
        return 1
    settings, credential = kept(".runner"), kept(".credentials")["data"]
    url = settings["serverUrl"]
    status, _ = ask("POST", url, "/_runner/session", credential)
    if status != 200:
        print("Failed to create a session. The runner registration has been deleted from the server.")
        return 1
    print("√ Connected to GitHub\n", flush=True)
    print("Listening for Jobs", flush=True)
    try:
        return serve(url, credential, settings)
    except Stopped:
        print("Exiting...", flush=True)
        return 0
    finally:
        ask("DELETE", url, "/_runner/session", credential)


def serve(url: str, credential: str, settings: Any) -> int:
    while True:
        status, job = ask("POST", url, "/_runner/jobs", credential, {})
        if status == 404:
            print("The runner registration has been deleted from the server, please re-configure.")
            return 1
        if status == 200:
            print("Running job: " + job["name"], flush=True)
            result, output = perform(job, settings)
            ask(
                "POST",
                url,
                "/_runner/jobs/%d" % job["id"],
                credential,
                {"conclusion": result, "output": output},
            )
            print("Job %s completed with result: %s" % (job["name"], result), flush=True)
            if settings["ephemeral"]:
                return 0


def perform(job: Any, settings: Any) -> tuple[str, str]:
    work = os.path.join(ROOT, settings.get("workFolder") or "_work", str(job["id"]))
    os.makedirs(work)
    env = {**os.environ, "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": work, "GITHUB_JOB": job["name"]}
    done = subprocess.run(
        ["/bin/sh", "-c", job["script"]], cwd=work, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    shutil.rmtree(work, ignore_errors=True)
    return "failure" if done.returncode else "success", done.stdout.decode(errors="replace")


def main() -> int:
    parser = argparse.ArgumentParser(prog="runner")
    parser.add_argument("verb", choices=["configure", "remove", "run"])
    for name in ("url", "token", "name", "labels", "runnergroup", "jitconfig", "startuptype"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--work", default="_work")
    for name in ("unattended", "replace", "ephemeral", "disableupdate", "once", "no-default-labels"):
        parser.add_argument("--" + name, action="store_true")
    options = parser.parse_args()
    for name, value in inputs().items():
        if not getattr(options, name, ""):
            setattr(options, name, value)
    if options.verb == "remove":
        for name in (".runner", ".credentials"):
            if os.path.exists(os.path.join(ROOT, name)):
                os.unlink(os.path.join(ROOT, name))
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return configure(options) if options.verb == "configure" else run(options)


if __name__ == "__main__":
    sys.exit(main())
