"""The JSON of the simulated Azure: what it reads from requests and what it answers."""

from collections.abc import Mapping
from typing import Any

from muster.integrations.aks.error_codes import Problem
from muster_simulation.arm.resources import (
    DELETING,
    FAILED,
    SUCCEEDED,
    VERSION,
    ArmCluster,
    ArmGroup,
    ArmOperation,
    Asked,
    AskedPool,
    Assignment,
    kubelet_of,
    principal_of,
)

Json = dict[str, Any]
TYPE = "Microsoft.ContainerService/managedClusters"


def error(problem: Problem) -> Json:
    return {"error": _problem(problem)}


def _problem(problem: Problem) -> Json:
    body: Json = {"code": problem.code, "message": problem.message}
    if problem.details:
        body["details"] = [_problem(each) for each in problem.details]
    return body


def group(found: ArmGroup, path: str) -> Json:
    state = SUCCEEDED if found.gone_at is None else DELETING
    return {
        "id": path,
        "name": found.name,
        "location": found.region,
        "tags": found.tags,
        "properties": {"provisioningState": state},
    }


def asked(body: Mapping[str, Any]) -> Asked:
    properties = body.get("properties", {})
    return Asked(
        region=str(body.get("location", "")),
        tags=dict(body.get("tags") or {}),
        pools=tuple(
            AskedPool(
                name=pool["name"],
                mode=pool.get("mode", "System"),
                vm_size=pool.get("vmSize", ""),
                count=pool.get("count", 1),
            )
            for pool in properties.get("agentPoolProfiles", [])
        ),
        version=properties.get("kubernetesVersion") or VERSION,
    )


def cluster(found: ArmCluster, path: str, now: float) -> Json:
    state = found.state(now)
    pools = [
        {
            "name": pool.name,
            "mode": pool.mode,
            "vmSize": pool.vm_size,
            "count": pool.count,
            "provisioningState": found.pool_state(number, now),
        }
        for number, pool in enumerate(found.asked.pools)
    ]
    properties: Json = {
        "provisioningState": state,
        "powerState": {"code": found.power},
        "kubernetesVersion": found.asked.version,
        "currentKubernetesVersion": found.asked.version,
        "fqdn": f"{found.name}.hcp.{found.asked.region}.azmk8s.io",
        "agentPoolProfiles": pools,
        "identityProfile": {"kubeletidentity": {"objectId": kubelet_of(found)}},
    }
    if state == FAILED and found.operation.problem is not None:
        properties["status"] = {"provisioningError": _problem(found.operation.problem)}
    return {
        "id": path,
        "name": found.name,
        "type": TYPE,
        "location": found.asked.region,
        "tags": dict(found.asked.tags),
        "identity": {"type": "SystemAssigned", "principalId": principal_of(found)},
        "properties": properties,
    }


def operation(found: ArmOperation, now: float) -> Json:
    status = found.status(now)
    body: Json = {"name": found.id, "status": status}
    if status == FAILED and found.problem is not None:
        body["error"] = _problem(found.problem)
    return body


def assignment(found: Assignment) -> Json:
    path = f"{found.scope}/providers/Microsoft.Authorization/roleAssignments/{found.name}"
    properties = {"scope": found.scope, "roleDefinitionId": found.role, "principalId": found.principal}
    return {"id": path, "name": found.name, "properties": properties}


def wanted(body: Mapping[str, Any], name: str, scope: str) -> Assignment:
    properties = body.get("properties", {})
    role = str(properties.get("roleDefinitionId", "")).rpartition("/")[2]
    return Assignment(name=name, scope=scope, role=role, principal=properties.get("principalId", ""))
