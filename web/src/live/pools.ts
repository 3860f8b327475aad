/** The pools as they are now, and which idle nodes they keep. */

import type { FeedEvent, Node, Pool, Pools } from "../api/types";
import { type Read, useResource } from "./resource";

const GAP = 1000;

export const ofPools = (event: FeedEvent) => ["node", "template", "launch", "installation"].includes(event.entity);

export const usePoolsRead = (): Read<Pools> => useResource<Pools>("/pools", { on: ofPools, gap: GAP });

export function usePools(): ReadonlyMap<string, Pool> {
  return new Map((usePoolsRead().data?.items ?? []).map((pool) => [pool.template, pool]));
}

/** Whether the pool keeps this idle node: it renewed it, or it has no more idle ones than it keeps. */
export function keptWarm(node: Pick<Node, "state" | "template" | "deadline_source">, pools: ReadonlyMap<string, Pool>) {
  if (node.state !== "idle") return false;
  const pool = pools.get(node.template);
  return pool === undefined
    ? node.deadline_source === "min_idle"
    : pool.min_idle > 0 && (node.deadline_source === "min_idle" || pool.idle <= pool.min_idle);
}
