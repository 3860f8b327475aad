import { describe, expect, test } from "vitest";
import { node } from "../testing/examples";
import { chosen, sorted } from "./nodes-choosing";

const nodes = [
  node({ id: "node-a", state: "idle", health: "ready", created_at: "2026-05-04T09:00:00Z" }),
  node({
    id: "node-b",
    state: "running",
    health: "offline",
    run: "ci-42",
    template: "gpu",
    created_at: "2026-05-04T09:02:00Z",
  }),
  node({
    id: "node-c",
    state: "failed",
    health: null,
    machine_id: "i-0ABC",
    created_at: "2026-05-04T09:01:00Z",
    deadline_at: "2026-05-04T10:00:00Z",
  }),
];
const ids = (query: string) =>
  sorted(chosen(nodes, new URLSearchParams(query)), new URLSearchParams(query))
    .map((each) => each.id.slice(-1))
    .join("");

describe("which nodes are shown", () => {
  test.each([
    ["", "bca"],
    ["state=idle", "a"],
    ["health=offline", "b"],
    ["template=gpu", "b"],
    ["run=ci-42", "b"],
    ["q=0abc", "c"],
    ["q=node%20ci", "b"],
    ["state=idle&health=offline", ""],
    ["state=sparkling", ""],
  ])("for ?%s", (query, shown) => expect(ids(query)).toBe(shown));
});

describe("in which order", () => {
  test.each([
    ["sort=id", "abc"],
    ["sort=-id", "cba"],
    ["sort=state", "abc"],
    ["sort=health", "cab"],
    ["sort=deadline", "cab"],
    ["sort=-age", "acb"],
    ["sort=nonsense", "bca"],
  ])("for ?%s", (query, order) => expect(ids(query)).toBe(order));
});
