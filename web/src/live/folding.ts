/**
 * A node's record, carried forward by its events.
 *
 * An event holds the fields that its write changed, so a table of ten thousand nodes need not be read again when one
 * of them moves. Times are seconds in events and text in the API; fields that the API doesn't show stay out.
 */

import type { FeedEvent, Health, Node } from "../api/types";

const FIELDS = new Set<string>([
  "id",
  "template",
  "revision",
  "provider",
  "resource_class",
  "usage_class",
  "instance_type",
  "machine_id",
  "launch_id",
  "state",
  "created_at",
  "entered_at",
  "deadline_at",
  "deadline_source",
  "operation_id",
  "assignment_id",
  "run",
  "owner",
  "last_owner",
  "joined_at",
  "booted_at",
  "attached_at",
  "drain",
  "reason",
  "detail",
  "phase",
  "step",
  "address",
]);
const REQUIRED = ["id", "template", "state", "created_at", "entered_at"];

/** The node after the event; the same one if the event is old news; undefined if it can't be known from it. */
export function folded(node: Node | undefined, event: FeedEvent): Node | undefined {
  if (event.entity === "health") return node && felt(node, event);
  if (event.entity !== "node") return node;
  if (node !== undefined && event.version <= node.version) return node;
  const changed: Record<string, unknown> = { version: event.version };
  for (const [name, value] of Object.entries(event.changes)) {
    if (FIELDS.has(name)) changed[name] = name.endsWith("_at") ? text(value) : value;
  }
  if (node !== undefined) return { ...node, ...changed };
  return REQUIRED.every((name) => name in changed) ? ({ revision: 0, ...changed } as unknown as Node) : undefined;
}

function felt(node: Node, event: FeedEvent): Node {
  const { health, health_reason, health_source, health_since } = event.changes;
  return {
    ...node,
    health: (health as Health | undefined) ?? null,
    health_reason: typeof health_reason === "string" ? health_reason : "",
    health_source: typeof health_source === "string" ? health_source : null,
    health_since: text(health_since),
  };
}

function text(value: unknown): string | null {
  return typeof value === "number" ? new Date(value * 1000).toISOString() : null;
}
