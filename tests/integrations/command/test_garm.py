"""Binaries of GARM: their leaks are not inherited."""

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fakes.garm_provider
from muster.domain.errors import Refused, Throttled, Uncertain
from muster.domain.template import TemplateSpec
from muster.integrations.command.provider import CommandProvider
from muster.integrations.command.tables import Dialect
from muster.ports.provider import LaunchRequest, MachineState
from muster.testing.provider_contract import asking, ids, listed
from tests.integrations.command.place import provider_of, settings

BINARY = Path(fakes.garm_provider.__file__)
SETTINGS = {"image": "debian-12", "flavor": "cx22"}
TOKEN = "inst-1/op-7.1"


@dataclass(frozen=True, slots=True)
class Cloud:
    root: Path

    def behave(self, **faults: bool) -> None:
        (self.root / "config").write_text(json.dumps({"directory": str(self.root), **faults}))

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(each.read_text()) for each in sorted(self.root.glob("*.json"))]

    def provider(self, installation_id: str = "inst-1") -> CommandProvider:
        config = settings(BINARY, dialect=Dialect.GARM, config_file=self.root / "config")
        return provider_of(config, installation_id)


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    made = Cloud(tmp_path)
    made.behave()
    return made


def launch(count: int = 1, **given: object) -> LaunchRequest:
    tables = {"command": {"settings": {**SETTINGS, **given}}}
    return asking(TOKEN, count, template=TemplateSpec(name="work", provider="command-local", tables=tables))


async def test_machines_are_made_found_listed_and_ended(cloud: Cloud) -> None:
    answer = await cloud.provider().launch(launch(3))
    assert len(set(ids(answer))) == 3 and answer.reason is None
    assert {machine.token for machine in answer.machines} == {TOKEN}
    assert sorted(ids(list(await cloud.provider().find(TOKEN)))) == sorted(ids(answer))
    await cloud.provider().terminate(ids(answer)[:1])
    assert sorted(ids(await listed(cloud.provider()))) == sorted(ids(answer)[1:])
    assert await cloud.provider().console(ids(answer)[1], lines=5) is None


async def test_an_empty_list_may_be_null(cloud: Cloud) -> None:
    assert await listed(cloud.provider()) == []


async def test_a_repeat_makes_no_second_machine_though_the_binary_would(cloud: Cloud) -> None:
    first = await cloud.provider().launch(launch(2))
    second = await cloud.provider().launch(launch(2))
    assert ids(first) == ids(second) and len(cloud.records) == 2


async def test_a_create_that_fails_after_it_made_the_machine_is_found(cloud: Cloud) -> None:
    cloud.behave(after_create=True)
    answer = await cloud.provider().launch(launch(1))
    assert ids(answer) == [cloud.records[0]["provider_id"]]


async def test_a_create_without_an_id_is_uncertain_and_found_by_the_repeat(cloud: Cloud) -> None:
    cloud.behave(no_id=True)
    with pytest.raises(Uncertain, match="told no id"):
        await cloud.provider().launch(launch(1))
    cloud.behave()
    assert ids(await cloud.provider().launch(launch(1))) == [cloud.records[0]["provider_id"]]
    assert len(cloud.records) == 1


async def test_a_create_that_failed_and_left_nothing_is_uncertain_with_the_binary_s_words(
    cloud: Cloud,
) -> None:
    cloud.behave(refuses=True)
    with pytest.raises(Uncertain, match="quota exceeded"):
        await cloud.provider().launch(launch(1))
    assert cloud.records == []


async def test_a_machine_that_stopped_says_why(cloud: Cloud) -> None:
    answer = await cloud.provider().launch(launch(1))
    path = cloud.root / f"{ids(answer)[0]}.json"
    fault = base64.b64encode(b"no more disk").decode()
    path.write_text(json.dumps({**cloud.records[0], "status": "error", "provider_fault": fault}))
    known = await cloud.provider().describe(ids(answer))
    assert (known[ids(answer)[0]].state, known[ids(answer)[0]].why) == (MachineState.STOPPING, "no more disk")


async def test_other_installations_and_other_machines_are_not_seen_or_ended(cloud: Cloud) -> None:
    answer = await cloud.provider().launch(launch(1))
    other = cloud.provider("inst-2")
    assert await listed(other) == []
    await other.terminate(ids(answer))
    assert len(cloud.records) == 1


async def test_the_start_script_comes_as_a_pre_install_script_and_no_runner_is_installed(
    cloud: Cloud,
) -> None:
    own = {"pre_install_scripts": {"10-own": "eA=="}, "disable_updates": True}
    await cloud.provider().launch(launch(1, extra_specs=own))
    specs = cloud.records[0]["asked"]["extra_specs"]
    assert list(specs["pre_install_scripts"]) == ["10-own", "99-muster"] and specs["disable_updates"] is True
    assert base64.b64decode(specs["runner_install_template"]) == b"#!/bin/bash\nexit 0\n"
    script = base64.b64decode(specs["pre_install_scripts"]["99-muster"]).decode()
    packed = script.partition("MUSTER_SCRIPT'")[2].partition("\n")[2].partition("\n")[0]
    plain = gzip.decompress(base64.b64decode(packed)).decode()
    assert "--proof-prefix command-local:muster-inst-1--op-7--1-0:" in plain


@pytest.mark.parametrize(
    ("given", "words"), [({"flavour": "x"}, "flavour is unknown"), ({"image": ""}, "image is missing")]
)
async def test_settings_that_the_binary_can_t_use_are_refused_by_name(
    cloud: Cloud, given: dict[str, object], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        await cloud.provider().launch(launch(1, **given))


async def test_a_binary_that_can_t_tell_its_version_is_tried_again_later(cloud: Cloud) -> None:
    (cloud.root / "config").write_text("{}")
    with pytest.raises(Throttled, match="did not tell its version"):
        await cloud.provider().find(TOKEN)
