import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { event, node, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { feed } from "./feed";
import { Fleet, type FleetState } from "./fleet";

const page = (...items: unknown[]) => Response.json({ items, next: null });
let site: Site;
let shown: FleetState | undefined;
let end: () => void;

beforeEach(async () => {
  signedIn("viewer");
  site = new Site();
  feed.start();
  await vi.waitFor(() => expect(feed.connection().kind).toBe("live"));
  shown = undefined;
});

afterEach(() => {
  end();
  feed.stop();
  vi.unstubAllGlobals();
});

const begin = (...states: ConstructorParameters<typeof Fleet>[0]) => {
  end = new Fleet(states, (state) => (shown = state)).start();
};
const row = () => shown?.nodes.map(({ id, state, version }) => [id, state, version]);

describe("the table of nodes", () => {
  test("keeps what an event said while a page with the older record was on its way", async () => {
    const answer = site.holds("/nodes?");
    begin("idle", "claimed");
    await site.says(event({ version: 4, name: "claim", changes: { state: "claimed", run: "ci-42" } }));
    answer(page(node({ version: 3, state: "idle" })));
    await vi.waitFor(() => expect(row()).toEqual([["node-1", "claimed", 4]]));
  });

  test("doesn't bring back what ended while the page was on its way", async () => {
    const answer = site.holds("/nodes?");
    begin("idle");
    await site.says(event({ version: 4, name: "gone", changes: { state: "terminated" } }));
    answer(page(node({ version: 3 }), node({ id: "node-2" })));
    await vi.waitFor(() => expect(row()).toEqual([["node-2", "idle", 3]]));
  });

  test("reads a node of which it missed an event", async () => {
    site.answers("/nodes?", () => page(node({ version: 3 })));
    site.answers("/nodes/node-1", () => Response.json(node({ version: 6, state: "claimed", run: "ci-42" })));
    begin("idle", "claimed");
    await vi.waitFor(() => expect(row()).toEqual([["node-1", "idle", 3]]));
    await site.says(event({ version: 6, name: "drain", changes: { drain: true } }));
    await vi.waitFor(() => expect(row()).toEqual([["node-1", "claimed", 6]]));
  });

  test("is read again by itself after a page could not be read", async () => {
    let up = false;
    site.answers("/nodes?", () => (up ? page(node()) : new Response("bad gateway", { status: 502 })));
    begin("idle");
    await vi.waitFor(() => expect(shown?.error?.message).toContain("502"));
    up = true;
    await vi.waitFor(() => expect(row()).toEqual([["node-1", "idle", 3]]), { timeout: 5000 });
    expect(shown?.error).toBeUndefined();
  });

  test("is read again when the feed begins anew, without those that are gone", async () => {
    let nodes = [node(), node({ id: "node-2" })];
    site.answers("/nodes?", () => page(...nodes));
    begin("idle");
    await vi.waitFor(() => expect(row()).toHaveLength(2));
    nodes = [node({ version: 9 })];
    feed.start();
    await vi.waitFor(() => expect(row()).toEqual([["node-1", "idle", 9]]));
  });

  test("takes in a node that comes to belong to it", async () => {
    site.answers("/nodes?", () => page());
    site.answers("/nodes/node-1", () => Response.json(node({ version: 7, state: "terminated" })));
    begin("terminated");
    await vi.waitFor(() => expect(shown?.whole).toBe(true));
    await site.says(event({ version: 7, name: "gone", changes: { state: "terminated" } }));
    await vi.waitFor(() => expect(row()).toEqual([["node-1", "terminated", 7]]));
  });
});
