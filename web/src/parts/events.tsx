/** Events as rows: when, what it is about, what happened, and who did it. */

import type { FeedEvent, Operation } from "../api/types";
import { Link, to } from "../routing/router";
import { ORDERLY, plain, short } from "../words/names";
import { Ago, By } from "./words";

const PAGES: Record<string, string> = {
  node: "nodes",
  health: "nodes",
  diagnosis: "nodes",
  operation: "operations",
  template: "templates",
  cluster: "clusters",
  job: "jobs",
};
const BAD = new Set(["fail", "failed", "failing", "offline", "condemn", "lost", "stalled", "needs_attention"]);
const GOOD = new Set([
  "booted",
  "attached",
  "hand_over",
  "pool_in",
  "ready",
  "committed",
  "settled",
  "rescued",
  "exited",
]);

const CODE = /^[a-z]+(_[a-z]+)+$/;

export function toneOfEvent(event: FeedEvent): string {
  if (event.name === "ended") {
    const status = event.changes["status"];
    return status === "failed" ? "danger" : status === "cancelled" ? "warning" : "success";
  }
  if (event.name === "condemn" && ORDERLY.has(String(event.changes["reason"]))) return "pending";
  return BAD.has(event.name) ? "danger" : GOOD.has(event.name) ? "success" : "pending";
}

/** What happened, in the past tense, in the server's own words. */
export const titled = (event: FeedEvent): string => event.title || plain(event.name);

/** A warm node's deadline moves every few minutes: true, kept, and of interest to few. */
export const routine = (event: FeedEvent): boolean => event.name === "renewed";

/** What an event changed, in a few words, where its detail says nothing. */
export function told(event: FeedEvent): string {
  if (event.detail) return CODE.test(event.detail) ? plain(event.detail) : event.detail;
  const { changes } = event;
  const { error, label, message } = changes as Partial<Operation>;
  if (error?.message) return error.message;
  if (event.name === "ended" && changes["status"] !== "succeeded") return `status: ${String(changes["status"])}`;
  if (event.entity === "operation" && label) return [label, message].filter(Boolean).join(" · ");
  const words = ["state", "status", "phase", "step", "reason", "health", "run", "exit_code"]
    .filter((name) => changes[name] !== undefined && changes[name] !== null && changes[name] !== "")
    .map((name) => `${plain(name)}: ${String(changes[name])}`);
  return words.slice(0, 3).join(" · ");
}

export function Subject({ event }: { event: FeedEvent }) {
  const page = PAGES[event.entity];
  const id = <bdi>{page === "templates" ? event.entity_id : short(event.entity_id)}</bdi>;
  return (
    <>
      <span className="faint event-entity">{plain(event.entity)}</span>
      {page ? (
        <Link className="mono name" href={to(page, event.entity_id)} title={event.entity_id}>
          {id}
        </Link>
      ) : (
        <span className="mono name" title={event.entity_id}>
          {id}
        </span>
      )}
    </>
  );
}

interface Line {
  event: FeedEvent;
  times: number;
}

/** Neighbours that read the same are one line with a count. */
export function gathered(events: readonly FeedEvent[]): Line[] {
  const lines: Line[] = [];
  for (const event of events) {
    const last = lines.at(-1);
    const same =
      last?.event.name === event.name && last.event.entity_id === event.entity_id && told(last.event) === told(event);
    if (last && same) last.times += 1;
    else lines.push({ event, times: 1 });
  }
  return lines;
}

export function EventList({ events, about = true }: { events: readonly FeedEvent[]; about?: boolean }) {
  return (
    <ol className={`event-list ${about ? "" : "event-list-one"}`} tabIndex={0} aria-label="Events">
      {gathered(events).map(({ event, times }) => (
        <li key={event.id} data-testid="event-row">
          <Ago at={event.at} />
          {about && (
            <span className="event-subject">
              <Subject event={event} />
            </span>
          )}
          <span className={`event-name tone-${toneOfEvent(event)}`}>
            {titled(event)}
            {times > 1 && <span className="faint"> × {times}</span>}
          </span>
          <span className="event-told">
            <bdi>{told(event)}</bdi>
            {event.actor && (
              <span className="faint">
                {" · "}
                <By who={event.actor} />
              </span>
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}
