/**
 * A node's record, carried forward by its events.
 *
 * An event holds the fields that its write changed, in the form of the API, so a table of ten thousand nodes need not
 * be read again when one of them moves.
 */

import type { FeedEvent, Node } from "../api/types";

/** The node after the event; the same one if the event is old news; undefined if it can't be known from it. */
export function folded(node: Node | undefined, event: FeedEvent): Node | undefined {
  const changes = event.changes as Partial<Node>;
  if (event.entity === "health") return node && { ...node, ...changes };
  if (event.entity !== "node") return node;
  if (node !== undefined) return event.version <= node.version ? node : { ...node, ...changes, version: event.version };
  return "created_at" in changes ? (changes as Node) : undefined; // the first event holds the whole node
}
