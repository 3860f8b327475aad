/** A bar that moves smoothly and never goes back, whatever arrives in which order. */

import { useRef } from "react";
import type { Progress } from "../api/types";
import { useNow } from "../live/ticking";
import { ended } from "../words/names";
import { seconds } from "../words/time";

const ON_TIME = 0.7; // how far it has come when the expected time is over
const LEAST_EXPECTED = 0.1;

/** The share of a way that is known by time alone: always rising, never whole. As in the server's domain/progress.py. */
export function crept(elapsed: number, expected: number): number {
  if (!(elapsed > 0 && expected > 0)) return 0;
  const late = elapsed / Math.max(expected, LEAST_EXPECTED) - 1;
  if (late <= 0) return ON_TIME * (1 + late);
  const left = 1 - ON_TIME;
  return 1 - left / (1 + (late * ON_TIME) / left);
}

/** Where the bar stands now: as the server said, and on from there while something works. */
export function percentAt(progress: Progress, now: number): number | null {
  const { percent, motion } = progress;
  if (typeof percent !== "number") return null;
  const since = motion ? seconds(motion.since, now) : null;
  if (!motion || since === null || ended(progress.status)) return percent;
  const way = Math.max(0, motion.to_percent - motion.from_percent);
  return Math.max(percent, motion.from_percent + way * crept(since, motion.expected_seconds));
}

/** Written without rounding up: what is nearly over is not over. */
export function written(value: number, decimals: number): string {
  const unit = 10 ** decimals;
  return (Math.floor(value * unit + 1e-6) / unit).toFixed(decimals);
}

/** The highest that was given so far for the same operation. */
export function useHighest(key: string, value: number): number {
  const kept = useRef({ key, value: 0 });
  if (kept.current.key !== key) kept.current = { key, value: 0 };
  kept.current.value = Math.min(100, Math.max(kept.current.value, Number.isFinite(value) ? value : 0));
  return kept.current.value;
}

export function ProgressBar({ progress, name }: { progress: Progress; name: string }) {
  const value = percentAt(progress, useNow());
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
  const live = !ended(progress.status);
  return (
    <>
      <div
        className={`bar ${kind && `bar-${kind}`} ${live ? "bar-live" : ""}`}
        role="progressbar"
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.floor(shown)}
        data-percent={written(shown, 4)}
      >
        <span style={{ transform: `scaleX(${shown / 100})` }} />
      </div>
      {live && (
        <span className="bar-figure figures" aria-hidden>
          {written(shown, 1)} %
        </span>
      )}
    </>
  );
}
