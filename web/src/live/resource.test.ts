import { act, renderHook, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Unreachable } from "../api/client";
import { event, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { feed } from "./feed";
import { useHistory } from "./history";
import { forgetAll, useResource } from "./resource";

let site: Site;

const connected = async () => {
  feed.start();
  await waitFor(() => expect(feed.connection().kind).toBe("live"));
};

beforeEach(() => {
  signedIn("viewer");
  site = new Site();
});

afterEach(() => {
  vi.useRealTimers();
  feed.stop();
  forgetAll();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe("what a page reads", () => {
  test("is read again once the feed has its place: no event tells of what happened before", async () => {
    let value = 1;
    site.answers("/thing", () => Response.json(value));
    const { result } = renderHook(() => useResource<number>("/thing"));
    await waitFor(() => expect(result.current.data).toBe(1));
    value = 2;
    await act(connected);
    await waitFor(() => expect(result.current.data).toBe(2));
  });

  test("is asked for again by itself after a proxy's 502", async () => {
    let up = false;
    site.answers("/thing", () => (up ? Response.json("here") : new Response("bad gateway", { status: 502 })));
    const { result } = renderHook(() => useResource<string>("/thing"));
    await waitFor(() => expect(result.current.error?.message).toContain("502"));
    up = true;
    await waitFor(() => expect(result.current.data).toBe("here"));
    expect(result.current.error).toBeUndefined();
  });

  test("isn't asked for again after a refusal that will stay", async () => {
    site.answers("/thing", () => Response.json({ code: "not_found", detail: "no such thing" }, { status: 404 }));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { result } = renderHook(() => useResource<string>("/thing"));
    await act(() => vi.advanceTimersByTimeAsync(60_000));
    expect(result.current.error?.message).toBe("no such thing");
    expect(site.count("/thing")).toBe(1);
  });

  test("doesn't wait for ever for an answer that never comes", async () => {
    const patience = new AbortController();
    const timeout = vi.spyOn(AbortSignal, "timeout").mockReturnValue(patience.signal);
    site.answers(
      "/thing",
      (_, init) =>
        new Promise((_resolve, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason))),
    );
    const { result } = renderHook(() => useResource<string>("/thing"));
    await waitFor(() => expect(site.count("/thing")).toBe(1));
    timeout.mockRestore();
    site.answers("/thing", () => Response.json("here"));
    act(() => patience.abort(new DOMException("too long", "TimeoutError")));
    await waitFor(() => expect(result.current.error).toBeInstanceOf(Unreachable));
    await waitFor(() => expect(result.current.data).toBe("here"));
  });
});

test.each([
  ["that reaches no server puts the silent stream to the test", new TypeError("network"), ["lost"]],
  ["that waited in vain doesn't: the server may be slow", new DOMException("too long", "TimeoutError"), []],
])("a request %s", async (_what, reason, found) => {
  await connected();
  const kinds: string[] = [];
  feed.watch(() => kinds.push(feed.connection().kind));
  site.answers("/thing", () => Promise.reject(reason));
  const { result } = renderHook(() => useResource<string>("/thing"));
  await waitFor(() => expect(result.current.error).toBeInstanceOf(Unreachable));
  if (found.length > 0) await waitFor(() => expect(kinds.slice(0, 1)).toEqual(found));
  else expect(kinds).toEqual([]);
});

test("a thing's events are in order, each once, also where the feed remembers more than was read", async () => {
  const all = Array.from({ length: 600 }, (_, index) => event({ id: `ev-${index}`, version: index }));
  site.answers("/events?last", () => Response.json({ items: all.slice(0, 599), next: "1" }));
  site.answers("/events?entity_id", () => Response.json({ items: all.slice(-300), next: "1" }));
  await connected();
  const { result } = renderHook(() => useHistory("node-1"));
  await waitFor(() => expect(result.current.data).toBeDefined());
  expect(result.current.data?.map((each) => each.version)).toEqual(
    Array.from({ length: 500 }, (_, index) => 100 + index),
  );
});
