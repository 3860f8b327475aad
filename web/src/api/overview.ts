/** What `GET /overview` sends. Any block may be null or missing; the page then leaves it out. */

import type { Health, Pools, Tone } from "./types";

export type Maybe<T> = T | null | undefined;

export interface Finding {
  code: string;
  tone: Tone;
  culprit: string;
  text: string;
  advice: string;
  about?: { kind: string; id: string } | null;
}

export interface FailureGroup {
  cause: string;
  diagnosed: boolean;
  reason: string;
  template?: string | null;
  revision?: number | null;
  count: number;
  nodes: number;
  operations: number;
  first_at: string;
  last_at: string;
  example_node_id?: string | null;
  example_operation_id?: string | null;
  detail: string;
  advice: string;
}

export interface Failures {
  count: number;
  more: boolean;
  groups: FailureGroup[];
}

export interface Leftover {
  node_id?: string | null;
  machine_id?: string | null;
  provider?: string | null;
  template?: string | null;
  since: string;
  reason?: string | null;
  detail: string;
}

export interface Change {
  id: string;
  at: string;
  what: string;
  text: string;
  who: string;
  entity: string;
  entity_id: string;
  template?: string | null;
  revision?: number | null;
  detail: string;
}

export interface Warmth {
  provisions: number;
  nodes: number;
  warm: number;
  rate?: number | null;
  more: boolean;
  ready?: { count: number; p50: number; p95: number } | null;
}

export interface Duty {
  name: string;
  every_seconds: number;
  last_tick_at?: string | null;
  late: boolean;
  problem: string;
}

export interface ProviderFigures {
  name: string;
  kind: string;
  /** As the verdict judges it. */
  tone?: Tone;
  window_seconds: number;
  calls: number;
  errors: number;
  throttled: number;
  error_rate?: number | null;
  p95_ms?: number | null;
  last_error: string;
}

export interface StoreFigures {
  tone?: Tone;
  window_seconds: number;
  calls: number;
  errors: number;
  p50_ms?: number | null;
  p95_ms?: number | null;
  p99_ms?: number | null;
}

export interface Held {
  node_id: string;
  health?: Health | null;
  health_reason?: string;
  drain?: boolean;
}

/** A run and the nodes that it has; without an operation: apps that enrolled by themselves. */
export interface Run {
  operation_id?: string | null;
  run?: string | null;
  template: string;
  since: string;
  deadline_at?: string | null;
  count: number;
  unwell: number;
  nodes: Held[];
}

export interface Runs {
  count: number;
  more: boolean;
  items: Run[];
}

export interface Waiting {
  count: number;
  more: boolean;
  reasons: { reason: string; text: string; count: number; oldest_since: string; operation_ids: string[] }[];
}

export interface Overview {
  at: string;
  replica?: string;
  verdict?: Maybe<Finding>;
  findings?: Maybe<Finding[]>;
  waiting?: Maybe<Waiting>;
  runs?: Maybe<Runs>;
  failures?: Maybe<{ hour: Failures; day: Failures }>;
  leftovers?: Maybe<{
    terminating: number;
    stuck: { count: number; items: Leftover[] };
    orphans: { count: number; items: Leftover[] };
  }>;
  changes?: Maybe<Change[]>;
  warmth?: Maybe<{ hour: Warmth; day: Warmth }>;
  pools?: Maybe<Pools>;
  health?: Maybe<Partial<Record<Health, number>>>;
  brakes?: Maybe<{ all: boolean; templates: string[] }>;
  duties?: Maybe<Duty[]>;
  providers?: Maybe<ProviderFigures[]>;
  store?: Maybe<StoreFigures>;
}
