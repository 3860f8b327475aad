import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { event } from "../testing/examples";
import { Refused } from "./client";
import { session } from "./session";
import { resume, signIn, watchToken } from "./signing-in";
import type { FeedEvent, Who } from "./types";

const WHO = { role: "viewer", name: "Ada", token_id: "tok-1" } as Who;
let answer: () => Response;

beforeEach(() => {
  answer = () => Response.json(WHO);
  vi.stubGlobal("fetch", async () => answer());
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const refusal = (status: number, detail: string) => () =>
  Response.json({ code: "unauthenticated", detail }, { status });

describe("signing in", () => {
  test("keeps the token for this tab, and who it belongs to", async () => {
    await signIn("muster_good");
    expect(session.get()).toMatchObject({ token: "muster_good", who: WHO });
    expect(sessionStorage.getItem("muster.token")).toBe("muster_good");
  });

  test.each(["", "two words", "bäd", "x".repeat(513), "a\nb"])("refuses %j without asking anybody", async (token) => {
    answer = () => {
      throw new Error("asked");
    };
    await expect(signIn(token)).rejects.toBeInstanceOf(Refused);
    expect(session.get().token).toBeNull();
  });

  test("with a token that is not good says why, and keeps nothing", async () => {
    answer = refusal(401, "it was revoked");
    await expect(signIn("muster_bad")).rejects.toThrow("it was revoked");
    expect(sessionStorage.getItem("muster.token")).toBeNull();
  });

  test("with one that may not look says which to use", async () => {
    answer = refusal(403, "cannot do this as enrol");
    await expect(signIn("muster_enrol")).rejects.toThrow("use a viewer's");
  });
});

describe("a token that ends", () => {
  let say: (events: readonly FeedEvent[]) => void;
  const subscribe = (batch: (events: readonly FeedEvent[]) => void) => {
    say = batch;
    return () => undefined;
  };

  test("signs out when an event tells of it, with a word why", async () => {
    await signIn("muster_good");
    const end = watchToken(WHO, subscribe);
    answer = refusal(401, "cannot accept the token tok-1: it was revoked");
    say([event({ entity_id: "tok-2" })]);
    expect(session.get().token).not.toBeNull();
    say([event({ entity_id: "tok-1" })]);
    await vi.waitFor(() => expect(session.get().token).toBeNull());
    expect(session.get().notice).toContain("it was revoked");
    end();
  });

  test("signs out at its time", async () => {
    await signIn("muster_good");
    vi.useFakeTimers();
    const end = watchToken({ ...WHO, expires_at: new Date(Date.now() + 60_000).toISOString() }, subscribe);
    answer = refusal(401, "it has expired");
    await vi.advanceTimersByTimeAsync(59_000);
    expect(session.get().token).not.toBeNull();
    await vi.advanceTimersByTimeAsync(5000);
    expect(session.get().notice).toContain("it has expired");
    end();
  });

  test("after a reload is told the same way", async () => {
    await signIn("muster_good");
    answer = refusal(401, "it has expired");
    await resume();
    expect(session.get()).toMatchObject({ token: null, notice: "You were signed out: it has expired" });
  });
});
