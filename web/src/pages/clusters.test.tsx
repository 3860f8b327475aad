import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Cluster } from "../api/types";
import { operation, part, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { CreateClusterDialog, wrongName } from "./cluster-create";
import { ClusterCard, Clusters, failedCreates } from "./clusters";

const template = {
  name: "batch",
  cluster: { region: "westeurope", resource_group: "rg", pools: [{ name: "sys", vm_size: "D4", count: 1 }] },
};
const create = (cluster: string, status: "failed" | "succeeded" | "cancelled", id = cluster) =>
  operation({
    operation_id: `op-${id}`,
    kind: "cluster_create",
    status,
    detail: { ...operation().detail, cluster, template: "batch" },
    error: {
      code: "cluster_create_failed",
      reason: "quota",
      help: "/codes#quota",
      message: `no room for ${cluster}`,
      advice: "ask for a larger quota",
      node_id: null,
      diagnosis: null,
    },
  });
const named = (name: string) => ({ id: `cl-${name}`, name, state: "ready", template: "batch" }) as Cluster;
let site: Site;

beforeEach(() => {
  HTMLDialogElement.prototype.showModal ??= () => undefined;
  signedIn("operator");
  site = new Site();
  site.answers("/templates", () => Response.json({ items: [template, { name: "nodes", cluster: null }] }));
});

afterEach(() => vi.unstubAllGlobals());

describe("creates that failed", () => {
  test("stay until the name is used again", () => {
    const creates = [create("a", "failed"), create("b", "failed")];
    expect(failedCreates(creates, []).map((each) => each.operation_id)).toEqual(["op-a", "op-b"]);
    expect(failedCreates(creates, [named("a")]).map((each) => each.operation_id)).toEqual(["op-b"]);
  });

  test("are told by the last create of their name alone", () => {
    const creates = [
      create("a", "succeeded", "a2"),
      create("a", "failed"),
      create("b", "failed", "b2"),
      create("b", "failed"),
    ];
    expect(failedCreates(creates, []).map((each) => each.operation_id)).toEqual(["op-b2"]);
    expect(failedCreates([create("c", "cancelled")], [])).toEqual([]);
  });

  test("are listed with their reason, and are no cluster", async () => {
    site.answers("/operations", () => Response.json({ items: [create("a", "failed")], next: null }));
    await act(async () => void render(<Clusters />));
    expect((await screen.findByTestId("failed-create")).textContent).toContain("No room for a");
    expect(screen.getByTestId("failed-create").textContent).toContain("ask for a larger quota");
    expect(screen.queryByTestId("cluster")).toBeNull();
  });
});

describe("the form", () => {
  test.each([
    ["", ""],
    ["a", ""],
    ["Blast_7-b", ""],
    ["a".repeat(63), ""],
    ["a".repeat(64), "At most 63"],
    ["-a", "begins and ends"],
    ["a_", "begins and ends"],
    ["a b", "Letters"],
  ])("%j: %j", (name, said) => {
    expect(wrongName(name)).toContain(said);
    if (said === "") expect(wrongName(name)).toBe("");
  });

  test("says what will be made, and shows a refusal at its field", async () => {
    const refusal = { code: "cluster_exists", detail: "there is one of that name", field: "name" };
    site.answers("/clusters", () => Response.json(refusal, { status: 409 }));
    await act(async () => void render(<CreateClusterDialog name="taken" template="batch" />));
    expect((await screen.findByTestId("will-be")).textContent).toContain("sys · 1 node · D4");
    expect(screen.queryByRole("option", { name: "nodes", hidden: true })).toBeNull();
    await act(async () => void fireEvent.submit(screen.getByLabelText("Name")));
    expect((await screen.findByRole("alert", { hidden: true })).textContent).toContain("there is one of that name");
    expect(screen.getByLabelText("Name").getAttribute("aria-invalid")).toBe("true");
    expect(site.count("/clusters")).toBe(1);
  });

  test("is not there for a viewer", async () => {
    signedIn("viewer");
    await act(async () => void render(<Clusters />));
    expect(screen.queryByRole("button", { name: "Create a cluster" })).toBeNull();
    expect(await screen.findByText("No clusters")).toBeTruthy();
    expect(screen.queryByText(/muster clusters create/)).toBeNull();
  });
});

test("a cluster that is ready shows its node pools, and no bar of what is over", async () => {
  const given = { ...named("a"), state: "ready", operation_id: "op-a", fqdn: "a.example" };
  const parts = [part({ id: "sys", name: "sys", state: "Succeeded", tone: "success" })];
  site.answers("/operations/op-a", () => Response.json(operation({ status: "succeeded", parts })));
  await act(async () => void render(<ClusterCard cluster={given as Cluster} />));
  expect((await screen.findByTestId("chip")).textContent).toBe("sysSucceeded");
  expect(screen.queryByTestId("operation-banner")).toBeNull();
  expect(screen.getByRole("link", { name: "Details of a" })).toBeTruthy();
});
