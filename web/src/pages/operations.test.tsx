import { act, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { feed } from "../live/feed";
import { forgetAll } from "../live/resource";
import { event, node, operation, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { Commands } from "./operation-commands";
import { OperationPage } from "./operation";
import { Afterwards } from "./operation-nodes";
import { Operations } from "./operations";

let site: Site;

beforeEach(async () => {
  signedIn("operator");
  site = new Site();
  feed.start();
  await waitFor(() => expect(feed.connection().kind).toBe("live"));
});

afterEach(() => {
  feed.stop();
  forgetAll();
  vi.unstubAllGlobals();
});

const began = (minute: number) => ({
  operation_id: `op-${minute}`,
  run: `run-${minute}`,
  started_at: `2026-05-04T09:${minute}:00Z`,
});

test("older operations that were asked for stay when a new one begins, and so does what moves out of the first page", async () => {
  let newest = [operation(began(22)), operation(began(21))];
  site.answers("/operations?", (path) =>
    path.includes("cursor")
      ? Response.json({ items: [operation(began(20))], next: null })
      : Response.json({ items: newest, next: "place" }),
  );
  render(<Operations />);
  fireEvent.click(await screen.findByText("Show older ones"));
  await screen.findByText("run-20");
  newest = [operation(began(23)), operation(began(22))];
  await act(() => site.says(event({ entity: "operation", entity_id: "op-23" })));
  await screen.findByText("run-23");
  const runs = screen.getAllByTestId("operation-row").map((row) => /run-\d+/.exec(row.textContent)?.[0]);
  expect(runs).toEqual(["run-23", "run-22", "run-21", "run-20"]);
});

describe("what can be done with a provision's nodes", () => {
  const members = [{ node_id: "node-1", assignment_id: "as-1" }];
  const provision = operation({ status: "succeeded", members });

  const held = [node({ state: "running", assignment_id: "as-1" })];

  test("is offered while the run has one of them", () => {
    render(<Afterwards operation={provision} nodes={held} />);
    expect(screen.getByText("Release")).toBeDefined();
    expect(screen.getByText("Extend")).toBeDefined();
  });

  test("isn't, once they were given back, also if another run has the same node by now", () => {
    render(<Afterwards operation={provision} nodes={[node({ state: "running", assignment_id: "as-2" })]} />);
    expect(screen.queryByRole("button")).toBeNull();
  });

  test("a release that is repeated because nobody answered is the same request", async () => {
    site.answers("/releases", () => Promise.reject(new TypeError("network")));
    render(<Afterwards operation={provision} nodes={held} />);
    fireEvent.click(screen.getByText("Release"));
    const yes = () => screen.getAllByText("Release").at(-1) as HTMLElement;
    await act(async () => fireEvent.click(yes()));
    await act(async () => fireEvent.click(yes()));
    const keys = site.asked
      .filter((each) => each.path === "/releases")
      .map((each) => each.headers.get("Idempotency-Key"));
    expect(keys).toHaveLength(2);
    expect(keys[0]).toBeTruthy();
    expect(keys[1]).toBe(keys[0]);
  });
});

test("the nodes of an operation are read in one request, however many there are, and again when one moves", async () => {
  const nodes = Array.from({ length: 200 }, (_, n) => node({ id: `node-${n}`, state: "created" }));
  const members = nodes.map((each, n) => ({ node_id: each.id, assignment_id: `as-${n}` }));
  site.answers("/operations/op-1", () => Response.json(operation({ operation_id: "op-1", members })));
  site.answers("/operations/op-1/nodes", () => Response.json({ items: nodes, next: null }));
  render(<OperationPage id="op-1" />);
  await screen.findByTestId("members");
  expect(site.count("/operations/op-1/nodes")).toBe(1);
  expect(site.count("/nodes/")).toBe(0);
  nodes[0] = node({ id: "node-0", state: "failed" });
  await act(() => site.says(event({ entity_id: "node-0", name: "fail" }), event({ entity_id: "node-9" })));
  await screen.findByText("failed");
  expect(site.count("/operations/op-1/nodes")).toBe(2);
});

test("a run shows its own commands, not those of an earlier run of the same name", async () => {
  const command = (id: string, word: string) => ({ id, node_id: "node-1", ordinal: 0, argv: [word], state: "exited" });
  site.answers("/commands", () =>
    Response.json({ items: [command("op-2.0", "mine"), command("op-1.0", "theirs")], next: null }),
  );
  const over = { headers: { "Muster-Command-State": "exited" } };
  site.answers("/commands/op-2.0/output", () => new Response("", over));
  render(<Commands operation={operation({ operation_id: "op-2", kind: "run" })} />);
  expect(await screen.findByText("mine")).toBeDefined();
  expect(screen.queryByText("theirs")).toBeNull();
});

test("an operation that was cancelled says who did it, and is no failure", async () => {
  const error = { code: "operation_cancelled", reason: "cancelled", message: "the provision was cancelled" };
  const over = operation({
    operation_id: "op-1",
    status: "cancelled",
    error: error as never,
    ended_at: "2026-05-04T09:31:00Z",
  });
  site.answers("/operations/op-1", () => Response.json(over));
  site.answers("/operations/op-1/nodes", () => Response.json({ items: [], next: null }));
  const told = event({ entity: "operation", entity_id: "op-1", name: "cancel_requested", actor: "Ada (tok-1)" });
  site.answers("/events", () => Response.json({ items: [told], next: null }));
  render(<OperationPage id="op-1" />);
  expect((await screen.findByTestId("cancelled-by")).textContent).toBe("Cancelled by Ada");
  expect(screen.queryByTestId("operation-error")).toBeNull();
});

test("the nodes of an operation that is over are told once, as they are now", async () => {
  const over = operation({ operation_id: "op-1", status: "failed", ended_at: "2026-05-04T09:31:00Z" });
  site.answers("/operations/op-1", () => Response.json(over));
  site.answers("/operations/op-1/nodes", () => Response.json({ items: [node({ state: "terminated" })], next: null }));
  render(<OperationPage id="op-1" />);
  expect((await screen.findByTestId("members")).textContent).toContain("terminated");
  expect(screen.queryAllByTestId("chip")).toEqual([]);
});
