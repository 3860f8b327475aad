import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { session } from "../api/session";
import type { FeedEvent } from "../api/types";
import { event, signedIn } from "../testing/examples";
import { FRAME_MOST, Feed } from "./feed";

/** A server whose streams the test writes. */
class Server {
  readonly asked: { path: string; last: string | null; authorization: string | null }[] = [];
  private streams: ReadableStreamDefaultController<Uint8Array>[] = [];
  refuse: Response | null = null;
  /** Streams that the page gave back. */
  ended = 0;
  private waiting: (() => void)[] = [];

  readonly fetch = async (address: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const headers = new Headers(init?.headers);
    this.asked.push({
      path: String(address),
      last: headers.get("Last-Event-ID"),
      authorization: headers.get("Authorization"),
    });
    for (const each of this.waiting.splice(0)) each();
    if (this.refuse) return this.refuse.clone();
    if (!headers.get("Accept")?.includes("event-stream"))
      return Response.json({ items: [event({ id: "old" })], next: "place-0" });
    const body = new ReadableStream<Uint8Array>({ start: (control) => void this.streams.push(control) });
    init?.signal?.addEventListener("abort", () => {
      this.ended += 1;
      this.streams.at(-1)?.error(new DOMException("", "AbortError"));
    });
    return new Response(body);
  };

  async asks(count: number): Promise<void> {
    while (this.asked.length < count) await new Promise<void>((resolve) => this.waiting.push(resolve));
    await settled();
  }

  say(events: readonly FeedEvent[], place: string): void {
    const words = events.map(
      (each, index) => `${index === events.length - 1 ? `id: ${place}\n` : ""}data: ${JSON.stringify(each)}\n\n`,
    );
    this.streams.at(-1)?.enqueue(new TextEncoder().encode(words.join("")));
  }

  breakOff(): void {
    this.streams.at(-1)?.error(new TypeError("network"));
  }
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 30));
let server: Server;
let feed: Feed;

beforeEach(() => {
  server = new Server();
  vi.stubGlobal("fetch", server.fetch);
  signedIn("viewer");
  feed = new Feed();
});

afterEach(() => {
  feed.stop();
  vi.unstubAllGlobals();
});

describe("the feed", () => {
  test("begins with the last events and goes on from there, with the token in a header", async () => {
    feed.start();
    await server.asks(2);
    expect(feed.recent.map((each) => each.id)).toEqual(["old"]);
    expect(server.asked[1]).toEqual({ path: "/api/v1/events", last: "place-0", authorization: "Bearer muster_secret" });
    expect(server.asked.every((each) => !each.path.includes("secret"))).toBe(true);
    expect(feed.connection().kind).toBe("live");
  });

  test("says that the connection is lost, comes back where it was, and gives each event once", async () => {
    const seen: string[] = [];
    feed.subscribe((batch) => seen.push(...batch.map((each) => each.id)));
    feed.start();
    await server.asks(2);
    server.say([event({ id: "a" }), event({ id: "b" })], "place-1");
    await settled();
    server.breakOff();
    await settled();
    expect(feed.connection().kind).toBe("lost");
    feed.retry();
    await server.asks(3);
    expect(server.asked[2]?.last).toBe("place-1");
    server.say([event({ id: "b" }), event({ id: "c" })], "place-2");
    await settled();
    expect(seen).toEqual(["a", "b", "c"]);
    expect(feed.connection().kind).toBe("live");
  });

  test("ends the session, and asks no more, once its token is no longer good", async () => {
    server.refuse = Response.json(
      { code: "unauthenticated", detail: "cannot accept the token tok-1: it has expired" },
      { status: 401 },
    );
    feed.start();
    await server.asks(1);
    await settled();
    expect(session.get().token).toBeNull();
    expect(session.get().notice).toContain("it has expired");
    expect(server.asked).toHaveLength(1);
  });

  test.each([
    ["never gave", { code: "invalid_request", detail: "no such place" }, 422],
    ["lost, as after a restore from a backup,", { code: "cursor_lost", detail: "begin anew" }, 410],
  ])("begins anew at a place that the server %s", async (_how, problem, status) => {
    feed.start();
    await server.asks(2);
    server.refuse = Response.json(problem, { status });
    server.breakOff();
    await settled();
    feed.retry();
    await server.asks(3);
    server.refuse = null;
    feed.retry();
    await server.asks(5);
    expect(server.asked.slice(3).map((each) => each.path)).toEqual(["/api/v1/events?last=300", "/api/v1/events"]);
  });

  test("keeps its place when somebody on the way refuses, as a proxy does while the server is replaced", async () => {
    feed.start();
    await server.asks(2);
    server.say([event({ id: "a" })], "place-1");
    await settled();
    server.refuse = new Response("<html>no such site", { status: 404 });
    server.breakOff();
    await settled();
    feed.retry();
    await server.asks(3);
    server.refuse = null;
    feed.retry();
    await server.asks(4);
    expect(server.asked.slice(2).map((each) => each.last)).toEqual(["place-1", "place-1"]);
  });

  test("says that all is stale whenever it begins, and not when it goes on", async () => {
    const stale = vi.fn();
    feed.resynchronise(stale);
    feed.start();
    await server.asks(2);
    expect(stale).toHaveBeenCalledTimes(1);
    server.breakOff();
    await settled();
    feed.retry();
    await server.asks(3);
    expect(stale).toHaveBeenCalledTimes(1);
    feed.start();
    await server.asks(5);
    expect(stale).toHaveBeenCalledTimes(2);
  });

  test("begins anew when more came than the page could take", async () => {
    const stale = vi.fn();
    feed.resynchronise(stale);
    // No frame comes before all of them are there, however slow this machine is.
    const later = setTimeout;
    vi.stubGlobal("requestAnimationFrame", () => 1);
    vi.stubGlobal("setTimeout", (act: () => void, after = 0) => (after === FRAME_MOST ? 1 : later(act, after)));
    feed.start();
    await server.asks(2);
    server.say(
      Array.from({ length: 10_001 }, (_, index) => event({ id: `ev-${index}` })),
      "place-9",
    );
    await server.asks(4);
    expect(stale).toHaveBeenCalledTimes(2);
    expect(feed.recent.map((each) => each.id)).toEqual(["old"]);
    expect(feed.connection().kind).toBe("live");
    expect(server.ended).toBe(1);
  });

  test("hands a burst of ten thousand on in a few batches, none of them too large for a frame", async () => {
    const sizes: number[] = [];
    feed.subscribe((batch) => sizes.push(batch.length));
    feed.start();
    await server.asks(2);
    server.say(
      Array.from({ length: 10_000 }, (_, index) => event({ id: `ev-${index}` })),
      "place-9",
    );
    while (sizes.reduce((sum, size) => sum + size, 0) < 10_000) await settled();
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1000);
    expect(sizes.length).toBeLessThan(200);
    expect(feed.recent).toHaveLength(3000);
    expect(feed.recent.at(-1)?.id).toBe("ev-9999");
  });
});

describe("a page that nobody looks at", () => {
  let hidden = false;
  const turn = (away: boolean) => {
    hidden = away;
    document.dispatchEvent(new Event("visibilitychange"));
  };

  beforeEach(() => {
    hidden = false;
    vi.spyOn(document, "hidden", "get").mockImplementation(() => hidden);
    vi.stubGlobal("requestAnimationFrame", () => 1); // it gets no frames
    return () => {
      vi.useRealTimers();
      vi.restoreAllMocks();
    };
  });

  test("hears of events all the same, also if it went away while a frame was due", async () => {
    const seen: string[] = [];
    feed.subscribe((batch) => seen.push(...batch.map((each) => each.id)));
    feed.start();
    await server.asks(2);
    server.say([event({ id: "a" })], "place-1");
    await settled();
    turn(true);
    server.say([event({ id: "b" })], "place-2");
    await vi.waitFor(() => expect(seen).toEqual(["a", "b"]));
  });

  test("gives its connection back after half a minute, and goes on where it was when somebody looks", async () => {
    feed.start();
    await server.asks(2);
    server.say([event({ id: "a" })], "place-1");
    await settled();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    turn(true);
    await vi.advanceTimersByTimeAsync(29_000);
    expect(feed.connection().kind).toBe("live");
    await vi.advanceTimersByTimeAsync(2000);
    expect(feed.connection().kind).toBe("connecting");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.asked).toHaveLength(2);
    turn(false);
    await vi.advanceTimersByTimeAsync(100);
    expect(server.asked.at(2)?.last).toBe("place-1");
    expect(feed.connection().kind).toBe("live");
  });

  test("that gives its connection back in the middle of a burst goes on before the events that it didn't take", async () => {
    const seen: string[] = [];
    feed.subscribe((batch) => seen.push(...batch.map((each) => each.id)));
    feed.start();
    await server.asks(2);
    const burst = Array.from({ length: 600 }, (_, index) => event({ id: `ev-${index}` }));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    turn(true);
    await vi.advanceTimersByTimeAsync(29_999);
    const timers = vi.getTimerCount();
    server.say(burst, "place-1");
    for (let turns = 0; turns < 1000 && vi.getTimerCount() === timers; turns += 1) await Promise.resolve();
    expect(vi.getTimerCount()).toBeGreaterThan(timers); // it has taken the first, and draws breath
    await vi.advanceTimersByTimeAsync(1);
    expect(feed.connection().kind).toBe("connecting");
    turn(false);
    await vi.advanceTimersByTimeAsync(100);
    expect(server.asked.at(2)?.last).toBe("place-0");
    server.say(burst, "place-1");
    await vi.advanceTimersByTimeAsync(5000);
    expect(seen).toEqual(burst.map((each) => each.id));
  });
});

describe("many windows of one browser", () => {
  /** The browser's locks, as its windows share them. */
  class Locks {
    readonly held = new Set<string>();
    readonly request = async (name: string, _options: LockOptions, use: (lock: unknown) => unknown): Promise<void> => {
      if (this.held.has(name)) return void (await use(null));
      this.held.add(name);
      await use({ name });
      this.held.delete(name);
    };
  }
  let locks: Locks;
  const others = ["muster.stream.0", "muster.stream.1", "muster.stream.2", "muster.stream.3"];

  beforeEach(() => {
    locks = new Locks();
    Object.defineProperty(navigator, "locks", { configurable: true, value: locks });
  });

  afterEach(() => {
    vi.useRealTimers();
    Reflect.deleteProperty(navigator, "locks");
  });

  test("a window with a stream has a place, and gives it back with the stream", async () => {
    feed.start();
    await server.asks(2);
    expect([...locks.held]).toEqual(["muster.stream.0"]);
    feed.stop();
    await settled();
    expect(locks.held.size).toBe(0);
  });

  test("a window that finds no place looks now and then, and gets its stream once one is free", async () => {
    for (const each of others) locks.held.add(each);
    let stale = 0;
    feed.resynchronise(() => (stale += 1));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    feed.start();
    await vi.advanceTimersByTimeAsync(1000);
    expect(feed.connection()).toEqual({ kind: "live", every: 10_000 });
    expect(server.asked.map((each) => each.path)).toEqual(["/api/v1/events?last=300"]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect([stale, server.asked.length]).toEqual([2, 2]);
    locks.held.delete("muster.stream.2");
    await vi.advanceTimersByTimeAsync(10_000);
    expect(feed.connection()).toEqual({ kind: "live" });
    expect(server.asked.at(-1)?.last).toBe("place-0");
  });
});
