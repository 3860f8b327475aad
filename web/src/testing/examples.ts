/** Examples as the server sends them; a test changes what it is about. */

import { session } from "../api/session";
import type { Failure, FeedEvent, Node, Operation, Part, Role, Who } from "../api/types";

export const NOW = Date.parse("2026-05-04T09:30:12Z");

export function signedIn(role: Role): void {
  session.began("muster_secret", { role, name: "Ada" } as Who);
}

export function operation(changes: Partial<Operation> = {}): Operation {
  return {
    operation_id: "op-1hx2k9q0c7m3t8v5e1",
    kind: "provision",
    status: "running",
    phase: "booting",
    label: "Booting and attaching",
    step: 3,
    total_steps: 5,
    message: "waiting for 2 nodes to boot",
    percent: 52,
    motion: null,
    eta_seconds: null,
    started_at: "2026-05-04T09:30:00Z",
    updated_at: "2026-05-04T09:30:10Z",
    deadline_at: "2026-05-04T09:42:00Z",
    parts: [
      part({ id: "node-1hx2k9q0c7m3t8v5e2", name: "node-1hx2k9q0c7m3t8v5e2", state: "attached", tone: "success" }),
      part({
        id: "node-1hx2k9q0c7m3t8v5e3",
        name: "node-1hx2k9q0c7m3t8v5e3",
        state: "booting",
        detail: "warming caches",
      }),
    ],
    detail: {
      run: "ci-42",
      template: "ci",
      count: 2,
      result: "",
      cluster: null,
      arm_elapsed_seconds: null,
      console_url: null,
    },
    error: null,
    elapsed_seconds: 12,
    steps: [],
    run: "ci-42",
    template: "ci",
    idempotency_key: null,
    version: 7,
    request: {},
    members: [],
    result: "",
    deadline_source: "default",
    queued_since: null,
    cancel_requested_at: null,
    committed_at: null,
    ended_at: null,
    ...changes,
  };
}

export function part(changes: Partial<Part>): Part {
  return {
    id: "systempool",
    name: "systempool",
    state: "Creating",
    tone: "active",
    detail: "",
    count: 1,
    since: null,
    ...changes,
  };
}

export function failure(changes: Partial<Failure>): Failure {
  return {
    code: "provision_failed",
    reason: "boot_timeout",
    message: "",
    advice: "",
    help: "/codes#boot_timeout",
    node_id: null,
    diagnosis: null,
    ...changes,
  };
}

export function event(changes: Partial<FeedEvent> = {}): FeedEvent {
  return {
    id: "ev-1",
    at: "2026-05-04T09:30:00Z",
    entity: "node",
    entity_id: "node-1",
    version: 1,
    name: "booted",
    title: "booted",
    changes: {},
    detail: "",
    actor: "",
    ...changes,
  };
}

export function node(changes: Partial<Node> = {}): Node {
  return {
    id: "node-1",
    template: "ci",
    revision: 1,
    provider: "process",
    resource_class: "small",
    usage_class: "on-demand",
    instance_type: "local",
    machine_id: "m-7",
    launch_id: null,
    state: "idle",
    version: 3,
    created_at: "2026-05-04T09:00:00Z",
    entered_at: "2026-05-04T09:10:00Z",
    deadline_at: null,
    deadline_source: "",
    operation_id: null,
    assignment_id: null,
    run: null,
    owner: null,
    last_owner: null,
    joined_at: null,
    booted_at: null,
    attached_at: null,
    last_seen_at: null,
    drain: false,
    reason: null,
    detail: "",
    phase: "",
    step: "",
    address: "",
    health: "ready",
    health_reason: "",
    health_source: "heartbeat",
    health_since: null,
    ...changes,
  };
}
