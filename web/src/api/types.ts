/**
 * What the API sends, as far as the page reads it. `muster serve` describes all of it at /openapi.json.
 *
 * A server may be older or newer than the page: what can be missing is optional here, so that the compiler makes
 * every use say what happens then.
 */

export type Tone = "pending" | "active" | "success" | "warning" | "danger";
export type Role = "viewer" | "operator" | "admin";
export type Status = "queued" | "running" | "succeeded" | "failed" | "cancelled";
export type NodeState =
  "created" | "idle" | "claimed" | "running" | "releasing" | "failed" | "terminating" | "terminated";
export type Health = "starting" | "ready" | "degraded" | "offline";

export const STATUSES: readonly Status[] = ["queued", "running", "succeeded", "failed", "cancelled"];
export const NODE_STATES: readonly NodeState[] = [
  "created",
  "idle",
  "claimed",
  "running",
  "releasing",
  "failed",
  "terminating",
  "terminated",
];
export const HEALTHS: readonly Health[] = ["starting", "ready", "degraded", "offline"];

export interface Page<T> {
  items: T[];
  next?: string | null;
}

export interface Who {
  token_id?: string;
  name?: string;
  role: Role;
  expires_at?: string | null;
  installation_id?: string;
  version?: string;
}

export interface Part {
  id: string;
  name: string;
  state: string;
  tone?: Tone;
  detail?: string;
  count?: number;
  since?: string | null;
}

export interface Evidence {
  section: string;
  line: number;
  text: string;
}

export interface Diagnosis {
  cause: string;
  summary: string;
  evidence?: Evidence | null;
  advice: string;
  fatal?: boolean;
}

export interface Failure {
  code: string;
  message: string;
  advice?: string;
  node_id?: string | null;
  diagnosis?: Diagnosis | null;
}

/** The one payload for every kind of operation. Whatever is missing is simply not shown. */
export interface Progress {
  operation_id: string;
  kind: string;
  status: Status;
  phase?: string | null;
  label?: string | null;
  step?: number | null;
  total_steps?: number | null;
  message?: string;
  percent?: number | null;
  eta_seconds?: number | null;
  started_at: string;
  updated_at?: string;
  deadline_at?: string | null;
  parts?: Part[];
  detail?: { run?: string | null; template?: string | null; count?: number | null; result?: string };
  error?: Failure | null;
}

export interface Operation extends Progress {
  run?: string | null;
  template?: string | null;
  version?: number;
  request?: Record<string, unknown>;
  members?: { node_id: string; assignment_id: string }[];
  steps?: { phase: string; label: string }[];
  result?: string;
  deadline_source?: string;
  queued_since?: string | null;
  cancel_requested_at?: string | null;
  committed_at?: string | null;
  ended_at?: string | null;
}

export interface Why {
  status: Status;
  waits_for: string;
  since: string;
  until: string;
  position?: number | null;
}

export interface Node {
  id: string;
  template: string;
  revision: number;
  provider: string;
  resource_class: string;
  usage_class?: string;
  instance_type?: string;
  machine_id?: string;
  launch_id?: string | null;
  state: NodeState;
  version: number;
  created_at: string;
  entered_at: string;
  deadline_at?: string | null;
  deadline_source?: string;
  operation_id?: string | null;
  assignment_id?: string | null;
  run?: string | null;
  owner?: string | null;
  last_owner?: string | null;
  joined_at?: string | null;
  booted_at?: string | null;
  attached_at?: string | null;
  last_seen_at?: string | null;
  drain?: boolean;
  reason?: string | null;
  detail?: string;
  phase?: string;
  step?: string;
  address?: string;
  health?: Health | null;
  health_reason?: string;
  health_source?: string | null;
  health_since?: string | null;
}

export interface Span {
  name: string;
  seconds: number;
}

export interface Distribution {
  count: number;
  p50: number;
  p95: number;
  p99: number;
  longest: number;
}

export interface Timeline {
  created_at: string;
  booted_at?: string | null;
  seconds: number;
  spans: Span[];
  usual?: Distribution | null;
}

export interface Bundle extends Diagnosis {
  reason?: string | null;
  detail?: string;
  collected_at: string;
  sections: { name: string; text: string; missing: string }[];
}

export interface Console {
  text: string;
  missing: string;
  read_at: string;
}

export interface Pool {
  template: string;
  idle: number;
  claimed: number;
  running: number;
  booting: number;
  releasing: number;
  failed: number;
  terminating: number;
  min_idle: number;
  max_nodes: number;
  used: number;
  paused: boolean;
}

export interface Pools {
  items: Pool[];
  used: number;
  max_nodes: number;
  paused: boolean;
}

export interface Template {
  name: string;
  revision: number;
  applied_at: string;
  paused: boolean;
  /** Nobody gets nodes of it any more. */
  retired?: boolean;
  provider: string;
  resource_class: string;
  /** Resource classes that are another size here than usual. */
  classes?: { name: string; cpu: number; memory_mib: number }[];
  runtime: string;
  boot_script: string;
  usage: string[];
  instance_types: string[];
  reuse: string;
  max_nodes: number;
  min_idle: number;
  replacements: number;
  provision_timeout?: number | null;
  max_provision_timeout?: number | null;
  stall_after?: number | null;
  learn?: boolean;
  attach_timeout?: number | null;
  max_runtime: number;
  idle_timeout: number;
  rescue_window: number;
  /** What its clusters are made of; null: it makes nodes. */
  cluster?: object | null;
}

export interface BootKind {
  instance_type: string;
  total: Distribution;
  phases: Span[];
  last: { node_id: string; booted_at: string; seconds: number }[];
  seconds?: number[];
  learned?: { seconds: number; basis: string } | null;
  deadline: { seconds: number; source: string };
}

export interface Boots {
  template: string;
  revision: number;
  deadline: { seconds: number; source: string };
  ceiling_seconds: number;
  kinds: BootKind[];
}

export interface FeedEvent {
  id: string;
  at: string;
  entity: string;
  entity_id: string;
  version: number;
  name: string;
  changes: Record<string, unknown>;
  detail: string;
  actor?: string;
}
