/** Which nodes the table shows, and in which order, as the address says. Pure, and quick enough for ten thousand. */

import { HEALTHS, type Node, NODE_STATES } from "../api/types";

export interface Column {
  key: string;
  name: string;
  value: (node: Node) => string | number;
}

const time = (at: string | null | undefined, none: number): number => (at ? Date.parse(at) : none);

export const COLUMNS: readonly Column[] = [
  { key: "id", name: "Node", value: (node) => node.id },
  { key: "state", name: "State", value: (node) => NODE_STATES.indexOf(node.state) },
  { key: "health", name: "Health", value: (node) => (node.health ? HEALTHS.indexOf(node.health) : -1) },
  { key: "template", name: "Template", value: (node) => node.template },
  { key: "run", name: "Run", value: (node) => node.run ?? "" },
  { key: "deadline", name: "Deadline", value: (node) => time(node.deadline_at, Infinity) },
  { key: "age", name: "Created", value: (node) => -time(node.created_at, 0) },
];

export function chosen(nodes: readonly Node[], query: URLSearchParams): readonly Node[] {
  const state = query.get("state");
  const health = query.get("health");
  const template = query.get("template");
  const run = query.get("run");
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  if (!state && !health && !template && !run && words.length === 0) return nodes;
  return nodes.filter(
    (node) =>
      (!state || node.state === state) &&
      (!health || node.health === health) &&
      (!template || node.template === template) &&
      (!run || node.run === run) &&
      words.every((word) => searched(node).includes(word)),
  );
}

function searched(node: Node): string {
  return `${node.id} ${node.run ?? ""} ${node.machine_id ?? ""} ${node.owner ?? ""} ${node.instance_type ?? ""} ${node.reason ?? ""}`.toLowerCase();
}

/** Newest first, unless the address says otherwise. Equal ones by id, so that rows don't change places by chance. */
export function sorted(nodes: readonly Node[], query: URLSearchParams): readonly Node[] {
  const by = query.get("sort") ?? "age";
  const column = COLUMNS.find((each) => each.key === by.replace(/^-/, "")) ?? COLUMNS.at(-1);
  if (!column) return nodes;
  const direction = by.startsWith("-") ? -1 : 1;
  const keyed = nodes.map((node) => ({ node, key: column.value(node) }));
  keyed.sort((a, b) => {
    if (a.key === b.key) return a.node.id < b.node.id ? -1 : 1;
    return a.key < b.key ? -direction : direction;
  });
  return keyed.map((each) => each.node);
}
