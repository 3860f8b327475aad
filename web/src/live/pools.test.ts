import { expect, test } from "vitest";
import type { Pool } from "../api/types";
import { node } from "../testing/examples";
import { keptWarm } from "./pools";

const pools = (idle: number, min_idle: number) => new Map([["ci", { template: "ci", idle, min_idle } as Pool]]);
const idle = node({ state: "idle", deadline_source: "idle_timeout" });

test.each([
  ["one of no more than it keeps", idle, pools(2, 2), true],
  ["one of more than it keeps", idle, pools(3, 2), false],
  ["one that it renewed", node({ state: "idle", deadline_source: "min_idle" }), pools(3, 2), true],
  ["one of a pool that keeps none", node({ state: "idle", deadline_source: "min_idle" }), pools(1, 0), false],
  ["one that runs", node({ state: "running" }), pools(1, 2), false],
  ["one whose pool is not read yet", idle, new Map<string, Pool>(), false],
])("the pool keeps %s: %#", (_, given, known, kept) => {
  expect(keptWarm(given, known)).toBe(kept);
});
