import { act, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Node } from "../api/types";
import { feed } from "../live/feed";
import { forgetAll } from "../live/resource";
import { event, node, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { Ending, NodePage } from "./node";

const FOUND = { cause: "dns", summary: "No name server", advice: "fix it", collected_at: "", sections: [] };
let site: Site;

beforeEach(() => {
  signedIn("viewer");
  site = new Site();
});

afterEach(() => {
  vi.useRealTimers();
  feed.stop();
  forgetAll();
  vi.unstubAllGlobals();
});

const ended = (changes: Partial<Node>, diagnosed = false) =>
  render(<Ending node={node({ state: "terminated", ...changes })} path="/nodes/node-1" diagnosed={diagnosed} />);

test.each(["retired", "operator", "idle_timeout"] as const)(
  "an end that is in order (%s) is told calmly, and no diagnosis is asked for",
  (reason) => {
    ended({ reason });
    expect(screen.getByTestId("ending").dataset["tone"]).toBe("neutral");
    expect(screen.getByText(/Nothing went wrong/)).toBeDefined();
    expect(site.asked).toEqual([]);
  },
);

test("a failed boot is told with its diagnosis", async () => {
  site.answers("/nodes/node-1/diagnosis", () => Response.json(FOUND));
  ended({ reason: "boot_script_failed", detail: "it ended with 1" }, true);
  expect(await screen.findByText("No name server")).toBeDefined();
  expect(screen.getByTestId("ending").dataset["tone"]).toBe("danger");
});

test("a node that was up and then lost has nothing to look into", () => {
  ended({ reason: "heartbeat_lost", booted_at: "2026-05-04T09:10:00Z" });
  expect(screen.getByTestId("ending").dataset["tone"]).toBe("warning");
  expect(site.asked).toEqual([]);
});

test("a diagnosis is asked for when the feed tells of it; until then the reason stands alone", async () => {
  site.answers("/nodes/node-1", () =>
    Response.json(node({ state: "failed", reason: "boot_timeout", detail: "it took too long" })),
  );
  site.answers("/nodes/node-1/", () => Response.json({ spans: [], text: "" }));
  site.answers("/nodes/node-1/diagnosis", () => Response.json(FOUND));
  feed.start();
  await waitFor(() => expect(feed.connection().kind).toBe("live"));
  render(<NodePage id="node-1" />);
  expect(await screen.findByText("It took too long")).toBeDefined();
  await act(() => site.says(event({ name: "fail" })));
  expect(site.count("/nodes/node-1/diagnosis")).toBe(0);

  await act(() => site.says(event({ entity: "diagnosis", name: "collected" })));
  expect(await screen.findByText("No name server")).toBeDefined();
});

test.each([
  ["that lives is read again for its heartbeats, which make no events", "idle", 3],
  ["that is gone has none, and is left alone", "terminated", 0],
] as const)("a node %s", async (_what, state, again) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  site.answers("/nodes/node-1", () => Response.json(node({ state, reason: "retired" })));
  site.answers("/nodes/node-1/", () => Response.json({ code: "not_found" }, { status: 404 }));
  render(<NodePage id="node-1" />);
  await act(() => vi.advanceTimersByTimeAsync(5000));
  const read = () => site.asked.filter((each) => each.path === "/nodes/node-1").length;
  const before = read();
  await act(() => vi.advanceTimersByTimeAsync(30_000));
  expect(read() - before).toBe(again);
});

const shown = () => {
  site.answers("/nodes/node-1/boot", () => Response.json({ spans: [], seconds: 0, usual: null }));
  render(<NodePage id="node-1" />);
};

test.each([
  ["created", "2026-05-04T09:30:11Z", "boot deadline passed"],
  ["running", "2026-05-04T09:30:11Z", "run deadline passed"],
] as const)("a deadline of a %s node that is over is told by its name", async (state, deadline_at, words) => {
  site.answers("/nodes/node-1", () => Response.json(node({ state, deadline_at })));
  shown();
  expect((await screen.findByTestId("axis-deadline")).textContent).toContain(words);
});

test("a node that the pool keeps shows that, and no countdown", async () => {
  site.answers("/nodes/node-1", () =>
    Response.json(node({ state: "idle", deadline_at: "2026-05-04T09:33:00Z", deadline_source: "min_idle" })),
  );
  shown();
  expect((await screen.findByTestId("axis-deadline")).textContent).toContain("kept warm");
});

test("a node that failed is not shown as starting", async () => {
  site.answers("/nodes/node-1", () => Response.json(node({ state: "failed", health: "starting" })));
  shown();
  const health = (await screen.findByTestId("axis-health")).textContent;
  expect(health).toContain("Not judged: the node failed");
  expect(health).not.toContain("starting");
});
