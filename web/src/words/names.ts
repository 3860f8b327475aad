/** Words of the API as people read them. Unknown ones are shown with spaces instead of underscores. */

import type { Health, NodeState, Progress, Status, Tone } from "../api/types";

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

/** `Step 3/5 · Booting and attaching`, or as much of it as is known. */
export function where(progress: Progress): string {
  const { step, total_steps } = progress;
  const known = typeof step === "number" && typeof total_steps === "number";
  return known ? `Step ${step}/${total_steps} · ${label(progress)}` : label(progress);
}

const STATUS_TONES: Record<Status, Tone> = {
  queued: "pending",
  running: "active",
  succeeded: "success",
  failed: "danger",
  cancelled: "warning",
};
/** As the server's tones; what is gone is neither good nor to come. */
export type Shade = Tone | "neutral";

const STATE_TONES: Record<NodeState, Shade> = {
  created: "active",
  idle: "success",
  claimed: "active",
  running: "success",
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

/** Why nodes end that somebody, or the order of things, wanted: nothing went wrong. */
export const ORDERLY: ReadonlySet<string> = new Set([
  "retired",
  "operator",
  "cancelled",
  "idle_timeout",
  "reuse",
  "left",
]);

export const STATE_MEANINGS: Record<NodeState, string> = {
  created: "booting, or attaching to the run that it was made for",
  idle: "warm: ready to be claimed by the next run",
  claimed: "taken for a run, attaching to it",
  running: "handed over: its run has it",
  releasing: "given back: must prove that it is clean",
  failed: "its boot failed; it may still be rescued",
  terminating: "being ended; the provider has not confirmed it yet",
  terminated: "gone",
};
export const HEALTH_MEANINGS: Record<Health, string> = {
  starting: "it has joined and is getting up",
  ready: "it says that it is well, and is heard",
  degraded: "it says that it works with trouble",
  offline: "it is not heard any more, or says that it is leaving",
};
