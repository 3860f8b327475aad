/** Small pieces of text: names that others chose, times, states. */

import type { ReactNode } from "react";
import type { Node } from "../api/types";
import { useNow } from "../live/ticking";
import { Link, to } from "../routing/router";
import { JUDGED, plain, type Shade, short, toneOfHealth, toneOfState, toneOfStatus } from "../words/names";
import { ago, exact, running, seconds, stamp, took } from "../words/time";
import { ToneSign } from "./icons";

/** Text from outside: any script and direction, any length, and it stays inside of its place. */
export function Name({ children, mono = false }: { children: string; mono?: boolean }) {
  return (
    <bdi className={mono ? "name mono" : "name"} title={children.length > 24 ? children : undefined}>
      {children}
    </bdi>
  );
}

/** A sentence of the server: what stands between backticks is a command or a name. */
export function Prose({ children }: { children: string }) {
  return <bdi>{children.split("`").map((piece, at) => (at % 2 === 1 ? <code key={at}>{piece}</code> : piece))}</bdi>;
}

export function Badge({ tone, children, title }: { tone: Shade; children: ReactNode; title?: string }) {
  return (
    <span className={`badge tone-${tone}`} title={title}>
      <ToneSign tone={tone} />
      <span>{children}</span>
    </span>
  );
}

export const StateBadge = ({ state }: { state: string }) => <Badge tone={toneOfState(state)}>{plain(state)}</Badge>;

export const StatusBadge = ({ status }: { status: string }) => (
  <Badge tone={toneOfStatus(status)}>{plain(status)}</Badge>
);

export function HealthBadge({ health, reason }: { health: string | null | undefined; reason?: string | undefined }) {
  if (!health) return <span className="faint">not known</span>;
  return (
    <Badge tone={toneOfHealth(health)} {...(reason ? { title: reason } : {})}>
      {plain(health)}
    </Badge>
  );
}

/** The health of a node as it stands: of one that failed or is on its way out there is none to tell. */
export function NodeHealth({ node }: { node: Pick<Node, "state" | "health" | "health_reason"> }) {
  if (!node.health || JUDGED.has(node.state)) return <span className="faint">–</span>;
  return <HealthBadge health={node.health} reason={node.health_reason} />;
}

/** When a node's time is over; a node that the pool keeps has no such time. */
export function NodeDeadline({ node, kept }: { node: Node; kept: boolean }) {
  if (kept) return <span className="kept-warm">kept warm</span>;
  if (!node.deadline_at) return <span className="faint">–</span>;
  return <Countdown until={node.deadline_at} />;
}

/** When, in relation to now; exactly when on hover. */
export function Ago({ at }: { at: string | null | undefined }) {
  const passed = seconds(at, useNow());
  if (!at || passed === null) return <span className="faint">never</span>;
  return (
    <time dateTime={at} title={exact(at)}>
      {ago(passed)}
    </time>
  );
}

/** At what time, to the second: for a list whose order and gaps one reads. With its day, if that is another one. */
export function At({ at }: { at: string }) {
  const passed = seconds(at, useNow()) ?? 0;
  return (
    <time dateTime={at} title={`${ago(passed)}, ${exact(at)}`} className="figures">
      {stamp(at, passed)}
    </time>
  );
}

/** How long it has been going on, from the server's times: a reload shows the same. */
export function Elapsed({ since }: { since: string }) {
  const passed = seconds(since, useNow());
  return (
    <time dateTime={since} title={`since ${exact(since)}`} className="figures">
      {running(passed ?? 0)}
    </time>
  );
}

/** How long something took; while it still goes on, how long by now. */
export function Lasted({ since, until }: { since: string; until?: string | null | undefined }) {
  if (!until) return <Elapsed since={since} />;
  return <span className="figures">{took(Math.max(0, seconds(since, Date.parse(until)) ?? 0))}</span>;
}

interface CountdownProps {
  until: string;
  ahead?: string;
  after?: string;
  over?: string;
}

/** `ahead` and `after` stand around the time that is left, `over` before the time that passed: "deadline passed 5 s ago". */
export function Countdown({ until, ahead = "", after = "", over = "passed" }: CountdownProps) {
  const passed = seconds(until, useNow()) ?? 0;
  const left = -passed;
  return (
    <time dateTime={until} title={exact(until)} className={left < 0 ? "figures late" : "figures"}>
      {left >= 0 ? `${ahead}${running(left)}${after}` : `${over} ${ago(passed)}`}
    </time>
  );
}

/** Who did it: the token's name, which people know it by; its id on hover. */
export function By({ who }: { who: string }) {
  const [, name, id] = /^(.+) \((tok-[^()]+)\)$/s.exec(who) ?? [undefined, who, ""];
  return (
    <span {...(id && { title: id })}>
      by <bdi>{name}</bdi>
    </span>
  );
}

export function NodeLink({ id, full = false }: { id: string; full?: boolean }) {
  return (
    <Link className="mono name" href={to("nodes", id)} title={id}>
      <bdi>{full ? id : short(id)}</bdi>
    </Link>
  );
}

export function OperationLink({ id, full = false }: { id: string; full?: boolean }) {
  return (
    <Link className="mono name" href={to("operations", id)} title={id}>
      <bdi>{full ? id : short(id)}</bdi>
    </Link>
  );
}

export function TemplateLink({ name, revision }: { name: string; revision?: number | null | undefined }) {
  return (
    <Link className="name" href={to("templates", name)} title={name}>
      <bdi>{name}</bdi>
      {typeof revision === "number" && <span className="faint"> r{revision}</span>}
    </Link>
  );
}
