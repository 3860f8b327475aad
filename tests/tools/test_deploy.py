"""What is in deploy/: the chart, the compose file and the Terraform module, checked with their own tools."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml

import muster
from muster.domain.template import RESOURCE_CLASSES
from muster.stores.dynamodb import schema

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "muster"
HELM = Path(sys.executable).with_name("helm")
EVERYTHING = (
    *("--set", "replicas=3", "--set", "storeSecret=store", "--set", "publicUrl=https://muster.example.com"),
    *("--set", "ingress.enabled=true", "--set", "ingress.host=muster.example.com"),
    *("--set", "ingress.tlsSecret=tls", "--set", "secrets={github}", "--set", "env.MUSTER_LOG_LEVEL=debug"),
    *("--set", "metrics.serviceMonitor=true", "--set", "metrics.tokenSecret=viewer"),
)
with_helm = pytest.mark.skipif(not HELM.exists(), reason="there is no helm for this platform")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


def rendered(*options: str) -> list[dict[str, Any]]:
    done = helm("template", "ci", str(CHART), *options)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@with_helm
@pytest.mark.parametrize("options", [(), EVERYTHING])
def test_helm_finds_nothing_wrong_with_the_chart(options: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", str(CHART), *options)
    assert done.returncode == 0, done.stdout + done.stderr


@with_helm
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("replicas=2", "replicas > 1 needs storeSecret"),
        ("ingress.enabled=true", "needs ingress.host"),
        ("metrics.serviceMonitor=true", "needs metrics.tokenSecret"),
        ("replicas=many", "replicas"),
        ("publicUrl=muster", "publicUrl"),
        ("imge.tag=1", "imge"),
    ],
)
def test_values_that_cannot_work_are_refused_with_their_name(option: str, words: str) -> None:
    done = helm("template", "ci", str(CHART), "--set", option)
    assert done.returncode != 0
    assert words in done.stderr


@with_helm
def test_pods_of_the_chart_have_no_rights_and_keep_secrets_out_of_their_text() -> None:
    (workload,) = [each for each in rendered(*EVERYTHING) if each["kind"] == "StatefulSet"]
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    store = next(each for each in container["env"] if each["name"] == "MUSTER_STORE")
    assert store == {
        "name": "MUSTER_STORE",
        "valueFrom": {"secretKeyRef": {"name": "store", "key": "store"}},
    }
    mounted = {each["name"] for each in container["volumeMounts"]}
    there = {each["name"] for each in pod["volumes"]} | {"data"}
    assert mounted <= there


@with_helm
def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (muster.__version__, muster.__version__)


def test_the_compose_file_keeps_passwords_out_and_servers_without_rights() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    servers = [each for name, each in services.items() if name.startswith("muster")]
    assert len(servers) == 2
    for each in servers:
        assert each["read_only"]
        assert each["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in each["ports"])
    assert len({each["volumes"][0] for each in servers}) == 2
    assert "${POSTGRES_PASSWORD:?" in text


def module() -> dict[str, Any]:
    with (DEPLOY / "terraform" / "main.tf").open() as file:
        found: dict[str, Any] = hcl2.load(file)
    return found


def test_the_module_makes_the_table_that_the_store_wants() -> None:
    text = (DEPLOY / "terraform" / "main.tf").read_text()
    wanted = schema.definition("muster")
    for each in wanted["AttributeDefinitions"]:
        assert f'"{each["AttributeName"]}"' in text
    for index in wanted["GlobalSecondaryIndexes"]:
        first, second = (key["AttributeName"] for key in index["KeySchema"])
        assert f'{index["IndexName"]} = ["{first}", "{second}"]' in text.replace("  ", " ")
    assert len(wanted["AttributeDefinitions"]) == text.split("toset([")[1].split("])")[0].count('"') // 2
    assert module()


def test_the_module_makes_a_queue_for_each_class() -> None:
    with (DEPLOY / "terraform" / "variables.tf").open() as file:
        text = file.read()
    assert all(f'"{name}"' in text for name in RESOURCE_CLASSES)


@pytest.mark.skipif(shutil.which("terraform") is None, reason="there is no terraform")
def test_terraform_would_not_format_the_module_anew() -> None:
    done = subprocess.run(
        ["terraform", "fmt", "-check", "-recursive", DEPLOY / "terraform"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
