import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { HeldNode } from "../api/types";
import { clock } from "../api/clock";
import { NOW, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { HeldCard } from "./overview-held";

let site: Site;

beforeEach(() => {
  signedIn("operator");
  site = new Site();
  vi.spyOn(clock, "now").mockReturnValue(NOW);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const held = (changes: Partial<HeldNode> = {}): HeldNode => ({
  node_id: "node-1",
  state: "failed",
  template: "ci",
  run: "ci-42",
  operation_id: "op-1",
  reason: "boot_script_failed",
  by: "Ada (tok-7)",
  since: "2026-05-04T09:20:12Z",
  deadline_at: "2026-05-04T09:50:13Z",
  used: 3,
  max_nodes: 5,
  end: "muster nodes terminate node-1",
  ...changes,
});
const shown = (...items: HeldNode[]) => render(<HeldCard held={{ count: items.length, items }} />);
const asked = () => site.asked.map(({ method, path }) => `${method} ${path}`);

test("a kept node says who keeps it, how long it is left, and its part of the cap", () => {
  shown(held());
  const words = screen.getByTestId("held-node").textContent ?? "";
  expect(words).toContain("boot script failed");
  expect(words).toContain("kept by Ada for 10m 00s");
  expect(words).toContain("20m 01s left");
  expect(words).toContain("takes 1 of its cap of 5 (3 used)");
  expect(screen.getByRole("link", { name: "ci-42" }).getAttribute("href")).toBe("/operations/op-1");
});

test("a failed node is kept for longer from now on, and ended after a question", async () => {
  shown(held());
  fireEvent.click(screen.getByRole("button", { name: "Keep node-1" }));
  fireEvent.change(screen.getByLabelText("For how many minutes from now"), { target: { value: "60" } });
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Keep" })));
  fireEvent.click(screen.getByRole("button", { name: "Terminate node-1" }));
  expect(asked()).toEqual(["POST /nodes/node-1/hold"]);
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Terminate" })));
  expect(asked()).toEqual(["POST /nodes/node-1/hold", "POST /nodes/node-1/terminate"]);
  expect(site.asked[0]?.body).toEqual({ seconds: 3600 });
});

test("a node whose command failed still serves its run: it is extended, and released to end it", async () => {
  shown(held({ state: "running", reason: null }));
  fireEvent.click(screen.getByRole("button", { name: "Extend node-1" }));
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Extend" })));
  fireEvent.click(screen.getByRole("button", { name: "Release node-1" }));
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Release" })));
  expect(asked()).toEqual(["POST /operations/op-1/extend", "POST /releases"]);
  expect(site.asked[1]?.body).toEqual({ operation_id: "op-1" });
});

test("a viewer sees what is kept, and no buttons", () => {
  signedIn("viewer");
  shown(held(), held({ node_id: "node-2", state: "running" }));
  expect(screen.getAllByTestId("held-node")).toHaveLength(2);
  expect(screen.queryByRole("button")).toBeNull();
});

test("without kept nodes there is no block, and more than are listed are told of", () => {
  expect(shown().container.textContent).toBe("");
  render(<HeldCard held={{ count: 2, items: [held()] }} />);
  expect(screen.getByText("These are the 1 that end first.")).toBeTruthy();
});
