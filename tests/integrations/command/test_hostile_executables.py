"""Executables that break, hang, lie or talk too much: nothing is lost, and the message says what happened."""

import asyncio
import json
import os
import resource
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from muster.domain.errors import ProviderError, Refused, Throttled, TokenSpent, Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec, UsageClass
from muster.integrations.command.calls import ANSWER_MOST, OUTPUT_GRACE
from muster.integrations.command.provider import CommandProvider
from muster.ports.provider import LaunchRequest
from muster.testing.provider_contract import asking
from tests.integrations.command.place import provider_of, script, settings

HELLO = {"protocols": [1], "name": "odd", "features": ["idempotent", "batch", "console"]}
NAME = "muster-inst-1--t1-0"
Make = Callable[..., CommandProvider]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """A provider over an executable that greets well and runs `does` for every other verb."""
    made: list[CommandProvider] = []

    def provider(does: str, *, hello: object = HELLO, seconds: float = 10.0) -> CommandProvider:
        text = f"#!/bin/bash\ncase $1 in hello) echo '{json.dumps(hello)}' ;; *) {does} ;; esac\n"
        config = settings(script(tmp_path / "odd", text), call_timeout=seconds)
        made.append(provider_of(config, "inst-1"))
        return made[-1]

    yield provider
    for each in made:
        await each.close()


def launch(count: int = 1, usage: UsageClass = UsageClass.ON_DEMAND) -> LaunchRequest:
    return asking("t1", count, template=TemplateSpec(name="work", provider="command-local"), usage=usage)


def lives(pid_file: Path) -> bool:
    stat = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def echo(answer: object) -> str:
    return f"echo '{json.dumps(answer)}'"


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("echo garbage", "can't be read"),
        ("true", "can't be read"),
        (f"{echo({'machines': []})}; {echo({'machines': []})}", "can't be read"),
        ("echo '{\"machines\": [{}]}'", "can't be read"),
        ("printf '\\xff\\xfe'", "can't be read"),
        ("echo no such zone >&2; exit 1", "exit status 1: no such zone"),
        ("kill -9 $$", "signal 9"),
        (f"head -c {ANSWER_MOST + 1} /dev/zero", f"more than {ANSWER_MOST} bytes"),
        (echo({"error": {"class": "uncertain", "message": "lost"}}), "lost"),
        (echo({"machines": [{"id": "../x", "name": NAME, "state": "running"}]}), "can't be read"),
        (echo({"machines": [{"id": "1", "name": NAME, "state": "melting"}]}), "can't be read"),
        (
            echo({"machines": [{"id": "1", "name": "muster-inst-1--t2-0", "state": "running"}]}),
            "not asked for",
        ),
        (echo({"machines": [{"id": "1", "name": NAME, "state": "running"}] * 2}), "twice"),
    ],
)
async def test_an_answer_that_proves_nothing_leaves_the_launch_uncertain(
    make: Make, does: str, words: str
) -> None:
    with pytest.raises(Uncertain, match=words):
        await make(does).launch(launch(2 if words == "twice" else 1))


async def test_an_executable_that_hangs_is_ended_with_its_children_at_its_time(
    make: Make, tmp_path: Path
) -> None:
    provider = make(f"sleep 4000 & echo $! > {tmp_path}/child; trap '' TERM; wait; sleep 4000", seconds=0.5)
    began = time.monotonic()
    with pytest.raises(Uncertain, match="did not end within"):
        await provider.find("t1")
    assert time.monotonic() - began < 30
    async with asyncio.timeout(5):
        while lives(tmp_path / "child"):  # noqa: ASYNC110 — killed, but no child of ours
            await asyncio.sleep(0.01)


async def test_a_child_that_holds_the_output_open_delays_the_answer_by_a_grace_only(make: Make) -> None:
    provider = make(f"{echo({'machines': []})}; sleep 4000 &")
    began = time.monotonic()
    assert list(await provider.find("t1")) == []
    assert time.monotonic() - began < OUTPUT_GRACE + 10


async def test_a_request_that_is_not_read_is_no_error(make: Make) -> None:
    provider = make(f"exec 0<&-; {echo({'machines': [{'id': '1', 'name': NAME, 'state': 'running'}]})}")
    assert [each.id for each in (await provider.launch(launch())).machines] == ["1"]


async def test_a_caller_that_gives_up_does_not_end_the_call(make: Make, tmp_path: Path) -> None:
    provider = make(f"read -r _ < {tmp_path}/go; touch {tmp_path}/done; {echo({'machines': []})}")
    os.mkfifo(tmp_path / "go")
    call = asyncio.create_task(provider.find("t1"))
    go = await asyncio.to_thread((tmp_path / "go").open, "w")
    call.cancel()
    go.write("on\n")
    go.close()
    await provider.close()
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize(
    ("does", "error", "reason"),
    [
        ("echo bad zone >&2; exit 64", Refused, Reason.PROVIDER_REFUSED),
        ("exit 78", Refused, Reason.PROVIDER_REFUSED),
        (
            echo({"error": {"class": "refused", "reason": "quota", "message": "5 of 5"}}),
            Refused,
            Reason.QUOTA,
        ),
        (echo({"error": {"class": "launch_spent", "message": "other"}}), TokenSpent, Reason.PROVIDER_ERROR),
        (
            echo({"error": {"class": "throttled", "message": "slow", "retry_after": 7}}),
            Throttled,
            Reason.PROVIDER_ERROR,
        ),
    ],
)
async def test_what_an_executable_refuses_is_told_with_its_reason(
    make: Make, does: str, error: type[ProviderError], reason: Reason
) -> None:
    with pytest.raises(error) as caught:
        await make(does).launch(launch())
    assert caught.value.reason is reason


async def test_a_secret_on_standard_error_is_not_told(make: Make) -> None:
    with pytest.raises(Uncertain) as caught:
        await make("echo 'password=hunter2hunter2' >&2; exit 1").launch(launch())
    assert "hunter2" not in str(caught.value)


async def test_machines_of_other_names_are_neither_listed_nor_ended(make: Make, tmp_path: Path) -> None:
    foreign = {
        "machines": [
            {"id": "1", "name": "muster-inst-2--t1-0", "state": "running"},
            {"id": "2", "name": "database", "state": "running"},
            {"id": "3", "name": NAME, "state": "running"},
        ]
    }
    provider = make(f"[ $1 = terminate ] && cat > {tmp_path}/ended && echo '{{}}' || {echo(foreign)}")
    assert [machine.id async for machine in provider.list()] == ["3"]
    await provider.terminate(["1", "2", "3"])
    assert json.loads((tmp_path / "ended").read_text())["ids"] == ["3"]


async def test_an_executable_that_is_missing_or_may_not_run_is_named(make: Make, tmp_path: Path) -> None:
    provider = make("true")
    (tmp_path / "odd").chmod(0o600)
    with pytest.raises(Throttled, match=f"cannot run {tmp_path}/odd"):
        await provider.find("t1")
    (tmp_path / "odd").unlink()
    with pytest.raises(Throttled, match="No such file"):
        await provider.find("t1")


async def test_a_protocol_that_this_server_does_not_speak_is_refused(make: Make) -> None:
    with pytest.raises(Refused, match="speaks protocol 2"):
        await make("true", hello={"protocols": [2], "name": "new"}).find("t1")


async def test_spot_is_refused_where_hello_does_not_name_it(make: Make) -> None:
    with pytest.raises(Refused, match="no spot"):
        await make("true").launch(launch(usage=UsageClass.SPOT))


async def test_an_executable_that_was_replaced_is_greeted_again(make: Make, tmp_path: Path) -> None:
    provider = make(echo({"machines": []}), hello={**HELLO, "visibility_window": 7})
    await provider.find("t1")
    assert provider.visibility_window == 7
    text = (tmp_path / "odd").read_text().replace('"visibility_window": 7', '"visibility_window": 11')
    script(tmp_path / "odd", text)
    await provider.find("t1")
    assert provider.visibility_window == 11


async def test_a_repeat_waits_for_the_launch_that_its_caller_gave_up(make: Make, tmp_path: Path) -> None:
    machine = {"machines": [{"id": "1", "name": NAME, "state": "running"}]}
    does = f"""
      cd {tmp_path}
      case $1 in
        launch) echo >> launches; read -r _ < go; touch made; {echo(machine)} ;;
        *) [ -e made ] && {echo(machine)} || {echo({"machines": []})} ;;
      esac"""
    os.mkfifo(tmp_path / "go")
    provider = make(does, hello={**HELLO, "features": []})
    first = asyncio.create_task(provider.launch(launch()))
    go = await asyncio.to_thread((tmp_path / "go").open, "w")
    first.cancel()
    repeat = asyncio.create_task(provider.launch(launch()))
    await provider.find("t1")  # the repeat has had time to ask too, if it did not wait
    go.write("on\n")
    go.close()
    assert [each.id for each in (await repeat).machines] == ["1"]
    assert (tmp_path / "launches").read_text() == "\n"


async def test_a_list_that_stands_still_is_no_list(make: Make) -> None:
    page = {"machines": [{"id": "1", "name": NAME, "state": "running"}], "cursor": "2"}
    with pytest.raises(Uncertain, match="one cursor twice"):
        await make(echo(page)).find("t1")


async def test_fifty_megabytes_are_read_to_their_end_and_never_kept(make: Make) -> None:
    began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Uncertain, match=f"more than {ANSWER_MOST} bytes"):
        await make("head -c 50000000 /dev/zero; head -c 50000000 /dev/zero >&2").launch(launch())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began < 40 << 10


async def test_list_follows_cursors_and_gives_up_on_one_without_end(make: Make) -> None:
    page = '{"machines": [{"id": "m%s", "name": "muster-inst-1--t1-%s", "state": "running"}], "cursor": %s}'
    answers = f"""
      asked=$(cat)
      case $asked in
        *'"cursor":"2"'*) printf '{page}' 1 1 null ;;
        *) printf '{page}' 0 0 '"2"' ;;
      esac"""
    assert [machine.id async for machine in make(answers).list()] == ["m0", "m1"]
