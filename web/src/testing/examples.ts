/** Examples as the server sends them; a test changes what it is about. */

import { session } from "../api/session";
import type { FeedEvent, Node, Operation, Role } from "../api/types";

export const NOW = Date.parse("2026-05-04T09:30:12Z");

export function signedIn(role: Role): void {
  session.began("muster_secret", { role, name: "Ada" });
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
    eta_seconds: null,
    started_at: "2026-05-04T09:30:00Z",
    updated_at: "2026-05-04T09:30:10Z",
    deadline_at: "2026-05-04T09:42:00Z",
    parts: [
      {
        id: "node-1hx2k9q0c7m3t8v5e2",
        name: "node-1hx2k9q0c7m3t8v5e2",
        state: "attached",
        tone: "success",
        detail: "",
        count: 1,
      },
      {
        id: "node-1hx2k9q0c7m3t8v5e3",
        name: "node-1hx2k9q0c7m3t8v5e3",
        state: "booting",
        tone: "active",
        detail: "warming caches",
        count: 1,
      },
    ],
    run: "ci-42",
    template: "ci",
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
    changes: {},
    detail: "",
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
    state: "idle",
    version: 3,
    created_at: "2026-05-04T09:00:00Z",
    entered_at: "2026-05-04T09:10:00Z",
    health: "ready",
    ...changes,
  };
}
