/** A bar that moves smoothly and never goes back, whatever arrives in which order. */

import { useRef } from "react";
import type { Progress } from "../api/types";
import { useNow } from "../live/ticking";
import { ended } from "../words/names";
import { seconds } from "../words/time";

const UNKNOWN_CAP = 0.95; // by time alone a step is never shown as done

/** Between two words of the server: on towards the end of the step, as fast as the learned durations say. */
export function crept(progress: Progress, now: number): number | null {
  const percent = progress.percent;
  if (typeof percent !== "number") return null;
  const { step, total_steps: total, eta_seconds: eta, updated_at: updated } = progress;
  const since = seconds(updated, now);
  if (ended(progress.status) || !eta || eta <= 0 || !step || !total || since === null || since <= 0) return percent;
  const most = (100 * (step - 1 + UNKNOWN_CAP)) / total;
  if (most <= percent) return percent;
  return percent + (most - percent) * Math.min(1, since / eta);
}

/** The highest that was given so far for the same operation. */
export function useHighest(key: string, value: number): number {
  const kept = useRef({ key, value: 0 });
  if (kept.current.key !== key) kept.current = { key, value: 0 };
  kept.current.value = Math.min(100, Math.max(kept.current.value, Number.isFinite(value) ? value : 0));
  return kept.current.value;
}

export function ProgressBar({ progress, name }: { progress: Progress; name: string }) {
  const value = crept(progress, useNow());
  const shown = useHighest(progress.operation_id, value ?? 0);
  if (value === null) {
    return ended(progress.status) ? null : (
      <div
        className="bar bar-unknown"
        role="progressbar"
        aria-label={name}
        aria-valuetext="how far it is, is not known"
      >
        <span />
      </div>
    );
  }
  const kind = progress.status === "failed" ? "danger" : progress.status === "cancelled" ? "warning" : "";
  return (
    <div
      className={`bar ${kind && `bar-${kind}`} ${ended(progress.status) ? "" : "bar-live"}`}
      role="progressbar"
      aria-label={name}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(shown)}
      data-percent={shown.toFixed(2)}
    >
      <span style={{ transform: `scaleX(${shown / 100})` }} />
    </div>
  );
}
