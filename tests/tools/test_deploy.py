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
import jsonschema_rs
import msgspec
import pytest
import yaml

import muster
from muster.api.context import ApiSettings
from muster.api.routes import described
from muster.api.server import DRAIN_SECONDS
from muster.config import load
from muster.config import schema as schema_of_settings
from muster.config.sources import ENVIRONMENT
from muster.domain.command import ARCHIVE_BYTES_MAX
from muster.domain.template import RESOURCE_CLASSES
from muster.stores.dynamodb import schema
from muster.stores.dynamodb.aws_client import Location
from muster.stores.dynamodb.candidates import queue_name
from tools import image, kubernetes_schemas

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


def workload_of(made: Sequence[Mapping[str, Any]]) -> Any:
    (workload,) = [each["spec"] for each in made if each["kind"] == "StatefulSet"]
    return workload


def container_of(made: Sequence[Mapping[str, Any]]) -> Any:
    (container,) = workload_of(made)["template"]["spec"]["containers"]
    return container


@with_helm
@pytest.mark.parametrize("options", [(), EVERYTHING])
def test_helm_finds_nothing_wrong_with_the_chart(options: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", str(CHART), *options)
    assert done.returncode == 0, done.stdout + done.stderr


@with_helm
@pytest.mark.parametrize("options", [(), EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_kubernetes_knows_each_field_of_the_chart(version: str, options: tuple[str, ...]) -> None:
    schemas = kubernetes_schemas.path(version)
    if not schemas.is_file():
        pytest.skip(kubernetes_schemas.HINT)
    shapes = json.loads(schemas.read_text())
    known = {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, shape in shapes["$defs"].items()
        for kind in shape.get("x-kubernetes-group-version-kind", ())
    }
    for made in rendered(*options):
        group, _, revision = made["apiVersion"].rpartition("/")
        if group == "monitoring.coreos.com":
            continue  # the Prometheus operator's own
        name = known[group, revision, made["kind"]]
        validator = jsonschema_rs.Draft202012Validator({**shapes, "$ref": f"#/$defs/{name}"})
        assert [f"{each.instance_path}: {each.message}" for each in validator.iter_errors(made)] == []


@with_helm
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("replicas=2", "replicas > 1 needs storeSecret"),
        ("ingress.enabled=true", "needs ingress.host"),
        ("metrics.serviceMonitor=true", "needs metrics.tokenSecret"),
        ("replicas=many", "replicas"),
        ("publicUrl=muster", "publicUrl"),
        ("replicas=51,storeSecret=store", "replicas"),
        ("image.tg=1", "tg"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("service.type=Cluster", "type"),
        ("service.port=0", "port"),
        ("service.port=65536", "port"),
        ("persistence.size=5GB", "size"),
        ("env.MUSTER_PACE=1", "MUSTER_PACE"),
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
    pod, container = workload_of(made)["template"]["spec"], container_of(made)
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


@with_helm
def test_a_pod_finds_its_settings_and_secrets_and_may_write_where_it_must() -> None:
    """The root of its file system is read-only."""
    made = rendered(*EVERYTHING)
    workload, container = workload_of(made), container_of(made)
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in workload["template"]["spec"]["volumes"]}
    data = re.search(r"MUSTER_DATA_DIR=(\S+)", (DEPLOY / "Containerfile").read_text())
    assert data is not None
    writable = {name: each["mountPath"] for name, each in mounts.items() if not each.get("readOnly")}
    assert writable == {"data": data[1], "tmp": "/tmp"}  # noqa: S108 — of the container
    assert container["args"] == ["serve", "--config", mounts["config"]["mountPath"]]
    assert mounts["config"]["subPath"] in next(each for each in made if each["kind"] == "ConfigMap")["data"]
    assert mounts["secret-github"]["mountPath"] == "/etc/muster/secrets/github"
    assert volumes["secret-github"]["secret"] == {"secretName": "github", "defaultMode": 0o440}
    assert {*mounts} == {*volumes, *(each["metadata"]["name"] for each in workload["volumeClaimTemplates"])}
    (claim,) = workload["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    brief = workload_of(rendered("--set", "persistence.enabled=false"))
    assert {"name": "data", "emptyDir": {}} in brief["template"]["spec"]["volumes"]


@with_helm
def test_a_pod_has_an_account_of_its_own_unless_one_is_named() -> None:
    own, other = rendered(), rendered("--set", "serviceAccount.create=false,serviceAccount.name=ours")
    assert "ci" in [each["metadata"]["name"] for each in own if each["kind"] == "ServiceAccount"]
    assert "ServiceAccount" not in {each["kind"] for each in other}
    used = [workload_of(each)["template"]["spec"]["serviceAccountName"] for each in (own, other)]
    assert used == ["ci", "ours"]


@with_helm
def test_servers_of_the_chart_start_side_by_side_and_again_after_new_settings() -> None:
    first, second = (workload_of(rendered(*EVERYTHING, "--set", f"config={each}")) for each in ("a=1", "a=2"))
    assert first["replicas"] == 3
    assert first["podManagementPolicy"] == "Parallel"  # one that does not come up holds up no other
    assert first["template"]["metadata"]["annotations"] != second["template"]["metadata"]["annotations"]
    assert first["template"]["spec"]["terminationGracePeriodSeconds"] > DRAIN_SECONDS
    image_of = [each["image"] for each in first["template"]["spec"]["containers"]]
    assert image_of == [f"localhost/muster:{muster.__version__}"]


@with_helm
def test_service_ingress_and_prometheus_reach_the_port_that_the_server_names() -> None:
    made = {each["kind"]: each["spec"] for each in rendered(*EVERYTHING) if "spec" in each}
    (port,) = container_of(rendered())["ports"]
    (served,) = made["Service"]["ports"]
    assert served["targetPort"] == port["name"]
    (rule,) = made["Ingress"]["rules"]
    (path,) = rule["http"]["paths"]
    assert rule["host"] == "muster.example.com"
    assert made["Ingress"]["tls"] == [{"hosts": ["muster.example.com"], "secretName": "tls"}]
    assert path["backend"] == {"service": {"name": "ci", "port": {"name": served["name"]}}}
    (watched,) = made["ServiceMonitor"]["endpoints"]
    assert watched["path"] in msgspec.json.decode(described())["paths"]
    assert watched["port"] == served["name"]
    assert watched["authorization"] == {"credentials": {"name": "viewer", "key": "token"}}


@with_helm
def test_the_ingress_lets_streams_stay_open_and_files_pass() -> None:
    (told,) = [each["metadata"]["annotations"] for each in rendered(*EVERYTHING) if each["kind"] == "Ingress"]
    of = {name.rpartition("/proxy-")[2]: value for name, value in told.items()}
    assert of["buffering"] == "off"
    assert int(of["read-timeout"]) > ApiSettings(data=Path()).keep_alive
    assert of["body-size"] == f"{ARCHIVE_BYTES_MAX // 2**20}m"


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
    selector = {
        "app.kubernetes.io/name": "muster",
        "app.kubernetes.io/instance": "ci",
    }  # no version changes it
    assert made["Service"]["spec"]["selector"] == selector
    for kind in ("PodDisruptionBudget", "StatefulSet", "ServiceMonitor"):
        assert made[kind]["spec"]["selector"]["matchLabels"] == selector
    for labels in (made["StatefulSet"]["spec"]["template"]["metadata"], made["Service"]["metadata"]):
        assert selector.items() <= labels["labels"].items()
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


def plain(found: Any) -> Any:
    """What a file of Terraform says, without the quotes and marks of the parser."""
    if isinstance(found, dict):
        return {plain(name): plain(each) for name, each in found.items() if name != "__is_block__"}
    if isinstance(found, list):
        return [plain(each) for each in found]
    return found.strip('"') if isinstance(found, str) else found


@pytest.fixture(scope="module")
def module() -> dict[str, dict[str, Any]]:
    """The blocks of the module by their address, e.g. `var.name` and `aws_iam_role.server`."""
    blocks: dict[str, dict[str, Any]] = {}
    for file in sorted((DEPLOY / "terraform").glob("*.tf")):
        read = plain(hcl2.loads(file.read_text()))
        for kind, prefix in (("resource", ""), ("data", "data.")):
            for block in read.get(kind, ()):
                blocks |= {
                    f"{prefix}{type_}.{name}": each
                    for type_, named in block.items()
                    for name, each in named.items()
                }
        for kind, prefix in (("variable", "var."), ("output", "output.")):
            blocks |= {prefix + name: each for block in read.get(kind, ()) for name, each in block.items()}
    return blocks


def test_all_that_the_module_names_is_there_and_each_variable_is_used(module: dict[str, Any]) -> None:
    text = json.dumps([*module.values()])
    named = set(re.findall(r"\b(?:data\.)?(?:var|aws_\w+)\.\w+", text))
    assert named <= {*module}
    assert {each for each in module if each.startswith("var.")} <= named


def test_the_module_makes_the_table_that_the_store_wants(module: dict[str, Any]) -> None:
    table = module["aws_dynamodb_table.store"]
    dynamic = {kind: block for each in table["dynamic"] for kind, block in each.items()}
    attributes, indexes = dynamic["attribute"], dynamic["global_secondary_index"]
    (own,), (content,), (typed,) = (
        table["local_secondary_index"],
        indexes["content"],
        attributes["content"],
    )
    assert (typed["name"], typed["type"]) == ("${attribute.value}", "S")
    assert (content["name"], content["hash_key"], content["range_key"]) == (
        "${global_secondary_index.key}",
        "${global_secondary_index.value[0]}",
        "${global_secondary_index.value[1]}",
    )
    made = {
        "TableName": "muster" if table["name"] == "${var.name}" else table["name"],
        "BillingMode": table["billing_mode"],
        "AttributeDefinitions": [
            {"AttributeName": each, "AttributeType": "S"}
            for each in re.findall(r'"(\w+)"', attributes["for_each"])
        ],
        "KeySchema": keyed(table["hash_key"], table["range_key"]),
        "LocalSecondaryIndexes": [index(own["name"], table["hash_key"], own["range_key"], own)],
        "GlobalSecondaryIndexes": [
            index(name, one, other, content) for name, (one, other) in indexes["for_each"].items()
        ],
    }
    assert made == schema.definition("muster")
    assert table["ttl"] == [{"attribute_name": schema.TTL["AttributeName"], "enabled": True}]


def keyed(one: str, other: str) -> list[dict[str, str]]:
    return [{"AttributeName": one, "KeyType": "HASH"}, {"AttributeName": other, "KeyType": "RANGE"}]


def index(name: str, one: str, other: str, content: Mapping[str, str]) -> dict[str, Any]:
    shown = {"ProjectionType": content["projection_type"]}
    return {"IndexName": name, "KeySchema": keyed(one, other), "Projection": shown}


def test_the_module_makes_a_queue_for_each_class(module: dict[str, Any]) -> None:
    queue = module["aws_sqs_queue.candidates"]
    assert queue["for_each"] == "${toset(var.resource_classes)}"
    assert queue["name"] == queue_name("${var.name}", "${each.value}")
    assert queue["message_retention_seconds"] == schema.KEPT_SECONDS
    assert module["var.resource_classes"]["default"] == [*RESOURCE_CLASSES]


def test_only_nodes_and_who_is_named_reach_the_servers_of_the_module(module: dict[str, Any]) -> None:
    rules = [
        (each.get("referenced_security_group_id"), each.get("cidr_ipv4"), each["from_port"], each["to_port"])
        for name, each in module.items()
        if name.startswith("aws_vpc_security_group_ingress_rule.")
        and each["security_group_id"] == "${aws_security_group.server.id}"
    ]
    port = "${var.port}"
    assert sorted(rules, key=str) == [
        ("${aws_security_group.node.id}", None, port, port),
        (None, "${each.value}", port, port),
    ]
    assert module["aws_vpc_security_group_ingress_rule.people"]["for_each"] == "${toset(var.allowed_cidrs)}"
    assert module["var.allowed_cidrs"]["default"] == []


def test_nodes_of_the_module_have_no_rights_and_no_open_port(module: dict[str, Any]) -> None:
    given = [each["role"] for name, each in module.items() if name.startswith("aws_iam_role_policy")]
    assert given == ["${aws_iam_role.server.id}"]
    opened = [each["security_group_id"] for name, each in module.items() if "_ingress_rule." in name]
    assert {*opened} == {"${aws_security_group.server.id}"}


def test_what_the_module_gives_out_is_what_its_name_says(module: dict[str, Any]) -> None:
    given = {
        name.removeprefix("output."): each["value"] for name, each in module.items() if "output." in name
    }
    store = given.pop("store").replace("${aws_dynamodb_table.store.name}", "muster")
    location = Location.of(store.replace("${data.aws_region.here.name}", "eu-central-1"))
    assert (location.table, location.region) == ("muster", "eu-central-1")
    assert given == {
        "server_instance_profile": "${aws_iam_instance_profile.server.name}",
        "server_security_group": "${aws_security_group.server.id}",
        "node_instance_profile": "${aws_iam_instance_profile.node.arn}",
        "node_security_group": "${aws_security_group.node.id}",
    }


def test_only_machines_take_the_roles_of_the_module(module: dict[str, Any]) -> None:
    for name in ("server", "node"):
        assert (
            module[f"aws_iam_role.{name}"]["assume_role_policy"] == "${data.aws_iam_policy_document.ec2.json}"
        )
    ((statement,),) = [module["data.aws_iam_policy_document.ec2"]["statement"]]
    assert statement["principals"] == [{"type": "Service", "identifiers": ["ec2.amazonaws.com"]}]
    assert statement["actions"] == ["sts:AssumeRole"]


def test_the_store_of_the_module_is_safe_and_its_names_fit(module: dict[str, Any]) -> None:
    table = module["aws_dynamodb_table.store"]
    assert table["deletion_protection_enabled"] == "${var.deletion_protection}"
    assert table["point_in_time_recovery"] == [{"enabled": "${var.point_in_time_recovery}"}]
    assert module["var.deletion_protection"]["default"] is True
    assert module["var.point_in_time_recovery"]["default"] is True
    assert module["var.port"]["default"] == schema_of_settings.ServerConfig().port
    (validation,) = module["var.name"]["validation"]
    pattern = re.search(r'regex\("([^"]+)"', validation["condition"])
    assert pattern is not None
    for good in ("muster", "a" * 3, "a" * 40, "A_b-1"):
        assert re.search(pattern[1], good)
        assert Location.of(f"dynamodb://{good}?region=eu-central-1").table == good
    for bad in ("", "a" * 2, "a" * 41, "a.b", "a b", "größe"):  # roles have names of 64, with their endings
        assert not re.search(pattern[1], bad)


@pytest.mark.skipif(shutil.which("terraform") is None, reason="there is no terraform")
def test_terraform_would_not_format_the_module_anew() -> None:
    done = subprocess.run(
        ["terraform", "fmt", "-check", "-recursive", DEPLOY / "terraform"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
