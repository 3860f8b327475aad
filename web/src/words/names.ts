/** Words of the API as people read them. Unknown ones are shown with spaces instead of underscores. */

import type { Health, NodeState, Operation, Progress, Status, Tone } from "../api/types";

export const plain = (word: string): string => word.replaceAll("_", " ");

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export const counted = (count: number, what: string): string =>
  `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

/** Ids end in what tells them apart. */
export function short(id: string): string {
  return id.length <= 14 ? id : `…${id.slice(-6)}`;
}

/** `Booting and attaching`; else the phase with spaces, else the status. */
export function label(progress: Progress): string {
  return progress.label || plain(progress.phase ?? "") || capital(progress.status);
}

/** A run of which a command failed goes on to its end: it gives its nodes back. */
export function wentWrongIn(operation: Progress & { steps?: Operation["steps"] }): number {
  const running = operation.steps?.findIndex((each) => each.phase === "running") ?? -1;
  return operation.error?.reason === "command_failed" && running >= 0 ? running + 1 : (operation.step ?? 0);
}

/** `Step 3/5 · Booting and attaching`, `Failed in step 3/5 · Booting and attaching`, or as much as is known. */
export function where(operation: Progress & { steps?: Operation["steps"] }): string {
  const { status, total_steps } = operation;
  const step = status === "failed" ? wentWrongIn(operation) : operation.step;
  const named = step === operation.step ? label(operation) : (operation.steps?.[(step ?? 0) - 1]?.label ?? "");
  if (status === "queued") return "Queued";
  if (status === "succeeded") return label(operation);
  const stopped = status === "failed" || status === "cancelled";
  const known = typeof step === "number" && step > 0 && typeof total_steps === "number";
  if (!known) return stopped ? capital(status) : named;
  return [`${stopped ? `${capital(status)} in step` : "Step"} ${step}/${total_steps}`, named]
    .filter(Boolean)
    .join(" · ");
}

const STATUS_TONES: Record<Status, Tone> = {
  queued: "pending",
  running: "active",
  succeeded: "success",
  failed: "danger",
  cancelled: "warning",
};
/** As the server's tones; what is gone is neither good nor to come, and a warm node looks unlike one at work. */
export type Shade = Tone | "neutral" | "standby" | "busy";

const STATE_TONES: Record<NodeState, Shade> = {
  created: "active",
  idle: "standby",
  claimed: "active",
  running: "busy",
  releasing: "active",
  failed: "danger",
  terminating: "warning",
  terminated: "neutral",
};
const HEALTH_TONES: Record<Health, Tone> = {
  starting: "active",
  ready: "success",
  degraded: "warning",
  offline: "danger",
};

export const toneOfStatus = (status: string): Tone => STATUS_TONES[status as Status] ?? "pending";
export const toneOfState = (state: string): Shade => STATE_TONES[state as NodeState] ?? "pending";
export const toneOfHealth = (health: string | null | undefined): Tone => HEALTH_TONES[health as Health] ?? "pending";

export const ended = (status: string): boolean =>
  status === "succeeded" || status === "failed" || status === "cancelled";

/** Why nodes end in good order: nothing went wrong. */
export const ORDERLY: ReadonlySet<string> = new Set([
  "retired",
  "operator",
  "cancelled",
  "idle_timeout",
  "reuse",
  "left",
]);

/** What ends when a node's deadline passes, by its state. */
export const DEADLINE_NAMES: Record<NodeState, string> = {
  created: "boot deadline",
  idle: "idle timeout",
  claimed: "attach deadline",
  running: "run deadline",
  releasing: "release deadline",
  failed: "rescue window",
  terminating: "deadline",
  terminated: "deadline",
};

/** What happens then. */
export const DEADLINE_ENDS: Record<NodeState, string> = {
  created: "a boot that doesn't advance fails then",
  idle: "it leaves the pool then",
  claimed: "another node takes its place then",
  running: "its run loses it then",
  releasing: "Muster terminates it then",
  failed: "Muster terminates it then",
  terminating: "",
  terminated: "",
};

/** In these states health says nothing: the node is judged already. */
export const JUDGED: ReadonlySet<string> = new Set(["failed", "terminating", "terminated"]);

export const STATE_MEANINGS: Record<NodeState, string> = {
  created: "booting, or attaching to its run",
  idle: "warm: ready to be claimed by the next run",
  claimed: "taken for a run, attaching to it",
  running: "handed over to its run",
  releasing: "given back; it is being cleaned",
  failed: "its boot failed",
  terminating: "the provider has not confirmed its end yet",
  terminated: "gone",
};
export const HEALTH_MEANINGS: Record<Health, string> = {
  starting: "it has joined, and is not ready yet",
  ready: "it is heard, and reports no trouble",
  degraded: "it works, and reports trouble",
  offline: "it is not heard any more, or said that it leaves",
};
