/** How the pools were used over the last day: one request for all charts of a page, again each minute. */

import type { PoolHistory, TemplateHistory } from "../api/types";
import { type Read, useResource } from "./resource";

const EVERY = 60_000; // the server takes one sample a minute

export function usePoolHistory(template?: string): Read<PoolHistory> {
  return useResource<PoolHistory>("/pools/history", { query: { template }, every: EVERY });
}

/** Templates that did something, the busiest first. */
export function busiest(history: PoolHistory): TemplateHistory[] {
  const peak = (each: TemplateHistory) => Math.max(0, ...each.points.map((p) => p.running + p.booting + p.idle));
  return history.items
    .filter((each) => peak(each) > 0)
    .sort((a, b) => peak(b) - peak(a) || a.template.localeCompare(b.template));
}

/** The share of boots that failed; null: nothing booted. */
export function failureRate({ boots = 0, failed = 0 }: Pick<TemplateHistory, "boots" | "failed">): number | null {
  return boots + failed === 0 ? null : failed / (boots + failed);
}
