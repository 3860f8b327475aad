import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Run } from "../api/types";
import { signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { RunsCard } from "./overview-runs";

let site: Site;

beforeEach(() => {
  signedIn("operator");
  site = new Site();
});

afterEach(() => vi.unstubAllGlobals());

const run = (changes: Partial<Run> = {}): Run => ({
  operation_id: "op-1",
  run: "ci-42",
  template: "ci",
  since: "2026-05-04T09:00:00Z",
  deadline_at: "2026-05-04T11:00:00Z",
  count: 1,
  unwell: 0,
  nodes: [{ node_id: "node-1", health: "ready", health_reason: "", drain: false }],
  ...changes,
});
const shown = (...items: Run[]) => render(<RunsCard runs={{ count: items.length, more: false, items }} />);

test("a run is given more time, and its node drained, from where one looks first", async () => {
  shown(run());
  fireEvent.click(screen.getByRole("button", { name: "Extend ci-42" }));
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Extend" })));
  fireEvent.click(screen.getByText("Drain"));
  await act(async () => fireEvent.click(screen.getAllByText("Drain").at(-1) as HTMLElement));
  expect(site.asked.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "POST /operations/op-1/extend",
    "POST /nodes/node-1/drain",
  ]);
});

test("a viewer sees who has nodes, and no brakes", () => {
  signedIn("viewer");
  shown(run());
  expect(screen.getByText("ci-42")).toBeDefined();
  expect(screen.queryByRole("button")).toBeNull();
});

test("nodes that are unwell are open to see, with what they say", () => {
  const ill = { node_id: "node-2", health: "degraded" as const, health_reason: "disk full", drain: true };
  shown(run({ unwell: 1, nodes: [ill] }), run({ operation_id: "op-2", run: "ci-43" }));
  const [first, second] = screen.getAllByRole("group") as HTMLDetailsElement[];
  expect([first?.open, second?.open]).toEqual([true, false]);
  expect(first?.textContent).toContain("disk full");
  expect(first?.textContent).toContain("drain");
});

test("runs of one name and one node each are told apart by their nodes", () => {
  const held = (id: string) => ({ node_id: id, health: "ready" as const, health_reason: "", drain: false });
  shown(run({ nodes: [held("node-1")] }), run({ operation_id: "op-2", nodes: [held("node-2")] }));
  const summaries = screen.getAllByRole("group").map((each) => each.querySelector("summary")?.textContent);
  expect(summaries).toEqual(["node-1", "node-2"]);
});

test("apps, which run for nobody, can't be given more time", () => {
  shown(run({ operation_id: null, run: null, deadline_at: null, template: "shop" }));
  expect(screen.getByText("Apps")).toBeDefined();
  expect(screen.queryByText("Extend")).toBeNull();
});

test("many runs are folded after the first few", () => {
  shown(...Array.from({ length: 9 }, (_, n) => run({ operation_id: `op-${n}`, run: `ci-${n}` })));
  expect(screen.getAllByTestId("run")).toHaveLength(6);
  fireEvent.click(screen.getByText("Show 3 more"));
  expect(screen.getAllByTestId("run")).toHaveLength(9);
});
