"""What is in deploy/: the chart, the compose file and the Terraform module, checked with their own tools."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hcl2
import msgspec
import pytest
import yaml

import muster
from muster.api.routes import described
from muster.config import load
from muster.config import schema as schema_of_settings
from muster.config.sources import ENVIRONMENT
from muster.domain.template import RESOURCE_CLASSES
from muster.stores.dynamodb import schema
from tools import image

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "muster"
HELM = Path(sys.executable).with_name("helm")
EVERYTHING = (
    *("--set", "replicas=3", "--set", "storeSecret=store", "--set", "publicUrl=https://muster.example.com"),
    *("--set", "ingress.enabled=true", "--set", "ingress.host=muster.example.com"),
    *("--set", "ingress.tlsSecret=tls", "--set", "secrets={github}", "--set", "env.MUSTER_LOG_LEVEL=debug"),
    *("--set", "metrics.serviceMonitor=true", "--set", "metrics.tokenSecret=viewer"),
)
MIGRATION = 1800
"""Seconds that the upgrade of a large store may take before the server listens."""
with_helm = pytest.mark.skipif(not HELM.exists(), reason="there is no helm for this platform")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


def rendered(*options: str) -> list[dict[str, Any]]:
    done = helm("template", "ci", str(CHART), *options)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def container_of(made: Sequence[Mapping[str, Any]]) -> Any:
    (workload,) = [each for each in made if each["kind"] == "StatefulSet"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return container


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
    made = rendered(*EVERYTHING)
    (workload,) = [each for each in made if each["kind"] == "StatefulSet"]
    pod, container = workload["spec"]["template"]["spec"], container_of(made)
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "fsGroup": 10001,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["automountServiceAccountToken"] is False
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
@pytest.mark.parametrize("options", [(), EVERYTHING])
def test_a_server_takes_the_settings_of_the_chart(options: tuple[str, ...], tmp_path: Path) -> None:
    made = rendered(*options, "--namespace", "ci-machines")
    (settings,) = [each["data"]["muster.toml"] for each in made if each["kind"] == "ConfigMap"]
    container = container_of(made)
    environment = {each["name"]: each.get("value", "postgresql://store/muster") for each in container["env"]}
    (tmp_path / "muster.toml").write_text(settings)
    config = load(tmp_path / "muster.toml", environment=environment)
    assert config.tables["process"].capacity == 0
    told = "https://muster.example.com" if options else "http://ci.ci-machines.svc:8420"
    assert config.server.public_url == (told,)
    assert {*environment} <= {*ENVIRONMENT}


@with_helm
def test_probes_ask_what_the_server_answers_where_it_listens() -> None:
    container = container_of(rendered())
    paths = msgspec.json.decode(described())["paths"]
    (port,) = container["ports"]
    assert port == {"name": "http", "containerPort": schema_of_settings.ServerConfig().port}
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert all(each["port"] == "http" and each["path"] in paths for each in asked.values())
    assert (asked["liveness"]["path"], asked["readiness"]["path"]) == ("/healthz", "/readyz")
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= MIGRATION


@with_helm
def test_what_belongs_to_the_pods_finds_them_and_more_than_one_are_not_ended_together() -> None:
    made = {each["kind"]: each for each in rendered(*EVERYTHING)}
    labels = made["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()
    assert made["Service"]["spec"]["selector"].items() <= labels
    for kind in ("PodDisruptionBudget", "StatefulSet"):
        assert made[kind]["spec"]["selector"]["matchLabels"].items() <= labels
    watched = made["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
    assert watched <= made["Service"]["metadata"]["labels"].items()
    assert made["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert "PodDisruptionBudget" not in {each["kind"] for each in rendered()}


def test_each_value_of_the_chart_is_used_and_each_that_is_used_is_there() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    shape = json.loads((CHART / "values.schema.json").read_text())["properties"]
    text = "".join(file.read_text() for file in sorted((CHART / "templates").iterdir()))
    used = set(re.findall(r"\.Values\.([a-zA-Z.]+)", text))
    there = {
        f"{name}.{inner}" if inner else name
        for name, value in values.items()
        for inner in (value if "properties" in shape[name] else ("",))
    }
    assert used == there
    assert {*shape} - {*values} == {"global"}  # which Helm itself adds to the values of a subchart


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
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert {*each["environment"]} <= {*ENVIRONMENT, "MUSTER_PROCESS_CAPACITY"}
        assert all(port.startswith("127.0.0.1:") for port in each["ports"])
    assert len({each["volumes"][0] for each in servers}) == 2
    assert "${POSTGRES_PASSWORD:?" in text
    first, second = servers
    assert first["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert second["depends_on"] == {"muster-1": {"condition": "service_healthy"}}


def test_the_image_has_all_extras_but_the_one_that_is_larger_than_the_rest() -> None:
    with (DEPLOY.parent / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert sorted({*image.EXTRAS, "azure"}) == sorted(extras)


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
