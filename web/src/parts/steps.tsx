/** The steps of an operation, each with when it began and how long it took, told from its events. */

import type { FeedEvent, Operation, Tone } from "../api/types";
import { ended, plain, wentWrongIn } from "../words/names";
import { took } from "../words/time";
import { ToneSign } from "./icons";
import { Elapsed } from "./words";

export interface Step {
  number: number;
  label: string;
  /** Null: it has not begun, or was not needed. */
  began: number | null;
  ended: number | null;
}

/** What each event showed, in order: a step lasts from its first mention to that of a later one. */
export function stepsOf(operation: Operation, events: readonly FeedEvent[]): Step[] {
  const began = new Map<number, { at: number; label: string }>();
  let total = operation.total_steps ?? 0;
  for (const event of [...events].sort((a, b) => a.version - b.version)) {
    const told = event.changes as Partial<Operation>;
    if (typeof told.step !== "number") continue;
    total = Math.max(total, told.total_steps ?? 0);
    if (!began.has(told.step)) {
      began.set(told.step, { at: Date.parse(event.at), label: told.label || plain(told.phase ?? "") });
    }
  }
  const now = operation.step;
  if (typeof now === "number" && !began.has(now)) {
    const at = began.size === 0 ? operation.started_at : (operation.updated_at ?? operation.started_at);
    began.set(now, { at: Date.parse(at), label: operation.label || plain(operation.phase ?? "") });
  }
  const end = ended(operation.status) ? Date.parse(operation.ended_at ?? operation.updated_at ?? "") : null;
  return Array.from({ length: total }, (_, index) => {
    const number = index + 1;
    const own = began.get(number);
    const later = [...began].filter(([other]) => other > number).map(([, each]) => each.at);
    const label = own?.label || operation.steps?.[index]?.label || `step ${number}`;
    return {
      number,
      label,
      began: own?.at ?? null,
      ended: own === undefined ? null : later.length > 0 ? Math.min(...later) : end,
    };
  });
}

function look(step: Step, operation: Operation): { tone: Tone; said: string } {
  const current = operation.step ?? 0;
  const over = ended(operation.status);
  if (step.began === null) {
    const skipped = step.number < current || (over && operation.status === "succeeded");
    if (skipped) return { tone: "success", said: "at once" };
    return { tone: "pending", said: over ? "not reached" : "to come" };
  }
  const passed = step.number < current || wentWrongIn(operation) < current;
  if (operation.status === "succeeded" || (passed && step.number !== wentWrongIn(operation))) {
    return { tone: "success", said: "" };
  }
  if (operation.status === "queued") return { tone: "pending", said: "waits" };
  if (!over) return { tone: "active", said: "" };
  return operation.status === "failed"
    ? { tone: "danger", said: "failed here" }
    : { tone: "warning", said: "cancelled here" };
}

const lasted = (seconds: number) => (seconds < 0.005 ? "at once" : took(seconds));

export function StepTimeline({ operation, events }: { operation: Operation; events: readonly FeedEvent[] }) {
  const steps = stepsOf(operation, events);
  if (steps.length === 0) return null;
  return (
    <ol className="steps" aria-label="Steps">
      {steps.map((step) => {
        const { tone, said } = look(step, operation);
        const instant = step.number === steps.length;
        return (
          <li
            key={step.number}
            className={`step tone-${tone} ${step.began === null ? "step-none" : ""}`}
            aria-current={step.began !== null && step.ended === null ? "step" : undefined}
          >
            <ToneSign tone={tone} />
            <span className="step-label">{step.label}</span>
            <span className="step-time figures">
              {said ||
                (step.began !== null && step.ended !== null && !instant && lasted((step.ended - step.began) / 1000))}
              {!said && step.began !== null && step.ended === null && (
                <Elapsed since={new Date(step.began).toISOString()} />
              )}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
