/** Events as rows: when, what it is about, what happened, and who did it. */

import type { FeedEvent, Operation } from "../api/types";
import { Link, to } from "../routing/router";
import { ORDERLY, plain, short } from "../words/names";
import { At, By } from "./words";

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

/** Fields that say more than the title does; a state's name or a phase's doesn't. */
const TELLING = ["run", "step", "reason", "exit_code"];
const CODE = /^[a-z]+(_[a-z]+)+$/;

export function toneOfEvent(event: FeedEvent): string {
  if (event.name === "ended") {
    const status = event.changes["status"];
    return status === "failed" ? "danger" : status === "cancelled" ? "warning" : "success";
  }
  if (event.name === "condemn" && ORDERLY.has(String(event.changes["reason"]))) return "pending";
  return BAD.has(event.name) ? "danger" : GOOD.has(event.name) ? "success" : "pending";
}

/** What happened, in the past tense, in the server's own words. How an operation ended is what its end is called. */
export function titled(event: FeedEvent): string {
  const status = event.changes["status"];
  if (event.name === "ended" && typeof status === "string") return plain(status);
  return event.title || plain(event.name);
}

/** A warm node's deadline moves every few minutes: true, kept, and of interest to few. */
export const routine = (event: FeedEvent): boolean => event.name === "renewed";

/** What an event changed, in a few words, where its detail says nothing. */
export function told(event: FeedEvent): string {
  if (event.detail) return CODE.test(event.detail) ? plain(event.detail) : event.detail;
  const { changes } = event;
  const { error, label, message } = changes as Partial<Operation>;
  if (error?.message) return error.message;
  if (event.name === "ended" && changes["status"] !== "succeeded") return ""; // its last step is no news
  if (event.entity === "operation" && label) return [label, message].filter(Boolean).join(" · ");
  return TELLING.filter((name) => changes[name] !== undefined && changes[name] !== null && changes[name] !== "")
    .map((name) => `${plain(name)} ${plain(String(changes[name]))}`)
    .join(" · ");
}

export function Subject({ event }: { event: FeedEvent }) {
  const page = PAGES[event.entity];
  const thing = page === "nodes" ? "node" : plain(event.entity);
  const id = <bdi>{page === "templates" ? event.entity_id : short(event.entity_id)}</bdi>;
  return (
    <>
      <span className="faint event-entity">{thing}</span>
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

/** What it changed, and who did it. */
export function Told({ event }: { event: FeedEvent }) {
  const words = told(event);
  return (
    <>
      {words && <bdi title={words}>{words}</bdi>}
      {event.actor && (
        <span className="faint">
          {words && " · "}
          <By who={event.actor} />
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

/** Of one thing, which its page names. */
export function EventList({ events }: { events: readonly FeedEvent[] }) {
  return (
    <ol className="event-list" tabIndex={0} aria-label="Events">
      {gathered(events).map(({ event, times }) => (
        <li key={event.id} data-testid="event-row">
          <At at={event.at} />
          <span className={`event-name tone-${toneOfEvent(event)}`}>
            {titled(event)}
            {times > 1 && <span className="faint"> × {times}</span>}
          </span>
          <span className="event-told">
            <Told event={event} />
          </span>
        </li>
      ))}
    </ol>
  );
}
