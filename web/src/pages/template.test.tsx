import { render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { Pool } from "../api/types";
import { forgetAll } from "../live/resource";
import { signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { PoolBars } from "./overview";
import { TemplatePage } from "./template";

afterEach(() => {
  forgetAll();
  vi.unstubAllGlobals();
});

test("the page of a template for clusters tells what a cluster is made of, and nothing of nodes", async () => {
  signedIn("viewer");
  const site = new Site();
  const template = {
    name: "aks",
    revision: 1,
    applied_at: "2026-05-04T09:00:00Z",
    provider: "aks",
    runtime: "exec",
    usage: [],
    instance_types: [],
    cluster: {
      region: "westeurope",
      resource_group: "rg-batch",
      pools: [{ name: "workers", count: 10, vm_size: "E16s", mode: "User" }],
    },
  };
  site.answers("/templates/aks", () => Response.json(template));
  site.answers("/templates/aks/boots", () =>
    Response.json({ deadline: { seconds: 3600, source: "default" }, kinds: [] }),
  );
  render(<TemplatePage name="aks" />);
  expect((await screen.findByTestId("node-pools")).textContent).toContain("workers10E16s");
  expect(await screen.findByText("1h")).toBeDefined();
  expect(screen.getByText("westeurope")).toBeDefined();
  for (const words of ["Pool", "Boot times", "Idle for", "Nodes asked for"])
    expect(screen.queryByText(words)).toBeNull();
  expect(screen.getByRole("link", { name: "Clusters" })).toBeDefined();
});

const pool = (template: string, changes: Partial<Pool> = {}): Pool =>
  ({ template, idle: 0, used: 0, min_idle: 0, max_nodes: 4, paused: false, ...changes }) as Pool;

test("pools without nodes are folded away behind the others", () => {
  signedIn("viewer");
  render(<PoolBars pools={[pool("a"), pool("b", { used: 1 }), pool("c", { min_idle: 2 }), pool("d")]} />);
  const names = screen.getAllByTestId("pool").map((each) => each.dataset["template"]);
  expect(names).toEqual(["b", "c", "a", "d"]);
  const folded = screen.getByText("2 more without nodes").closest("details");
  expect(folded?.open).toBe(false);
  expect(folded?.querySelectorAll("[data-testid=pool]")).toHaveLength(2);
});

test("where all pools are without nodes, they are shown", () => {
  signedIn("viewer");
  render(<PoolBars pools={[pool("a"), pool("b")]} />);
  expect(document.querySelector("details")).toBeNull();
  expect(screen.getAllByTestId("pool")).toHaveLength(2);
});
