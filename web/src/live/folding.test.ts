import { describe, expect, test } from "vitest";
import { event, node } from "../testing/examples";
import { folded } from "./folding";

describe("a node and its events", () => {
  test("an event carries its record forward", () => {
    const after = folded(
      node({ version: 3, state: "idle" }),
      event({ version: 4, name: "claim", changes: { state: "claimed", run: "ci-42" } }),
    );
    expect(after).toEqual(node({ version: 4, state: "claimed", run: "ci-42" }));
  });

  test.each([2, 3])("old news (version %d of 3) change nothing", (version) => {
    const had = node({ version: 3 });
    expect(folded(had, event({ version, changes: { state: "failed" } }))).toBe(had);
  });

  test("its first event makes it known", () => {
    const whole = node({ id: "node-9", version: 1, state: "created" });
    const first = event({ entity_id: "node-9", name: "adopt", changes: { ...whole } });
    expect(folded(undefined, first)).toEqual(whole);
  });

  test("a later event of an unknown node is not enough to know it", () => {
    expect(folded(undefined, event({ version: 7, changes: { state: "idle" } }))).toBeUndefined();
  });

  test("health has its own versions, and leaves the record alone", () => {
    const after = folded(
      node({ version: 9 }),
      event({
        entity: "health",
        version: 2,
        changes: { health: "offline", health_reason: "silent", health_since: "2026-05-04T09:30:00Z" },
      }),
    );
    expect(after).toMatchObject({
      version: 9,
      state: "idle",
      health: "offline",
      health_reason: "silent",
      health_since: "2026-05-04T09:30:00Z",
    });
  });

  test("a deadline that was lifted is gone", () => {
    expect(
      folded(node({ deadline_at: "2026-05-04T09:30:00Z" }), event({ version: 4, changes: { deadline_at: null } }))
        ?.deadline_at,
    ).toBeNull();
  });
});
