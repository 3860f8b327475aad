/** One node: who may use it and how it feels, how long it may stay as it is, how its boot went, what it said. */

import { useState } from "react";
import { Refused } from "../api/client";
import type { Bundle, Console, FeedEvent, Node, Timeline } from "../api/types";
import { useHistory } from "../live/history";
import { keptWarm, usePools } from "../live/pools";
import { type Read, useResource } from "../live/resource";
import { BootChart } from "../parts/charts";
import { Copy } from "../parts/copy";
import { Crumbs } from "../parts/crumbs";
import { DiagnosisCard } from "../parts/diagnosis";
import { DrainButton } from "../parts/drain";
import { EventList } from "../parts/events";
import { HoldButton } from "../parts/extend";
import { Card, Fact, Facts } from "../parts/facts";
import { Loading, NotFound, Shown, Trouble } from "../parts/states";
import { TerminalButton } from "../parts/terminal-button";
import { TerminateButton } from "../parts/terminate";
import {
  Ago,
  Badge,
  Countdown,
  Elapsed,
  Name,
  NodeHealth,
  OperationLink,
  Prose,
  StateBadge,
  TemplateLink,
} from "../parts/words";
import { Link } from "../routing/router";
import {
  capital,
  DEADLINE_ENDS,
  DEADLINE_NAMES,
  HEALTH_MEANINGS,
  JUDGED,
  ORDERLY,
  plain,
  STATE_MEANINGS,
} from "../words/names";

const CONSOLE_EVERY = 15_000;
const BEATS_EVERY = 10_000; // heartbeats make no events

export function NodePage({ id }: { id: string }) {
  const path = `/nodes/${encodeURIComponent(id)}`;
  const own = (event: FeedEvent) => event.entity_id === id;
  const [gone, setGone] = useState(false);
  const read = useResource<Node>(path, { on: own, ...(!gone && { every: BEATS_EVERY }) });
  const history = useHistory(id);
  const node = read.data;
  const ended = node?.state === "terminated";
  if (ended !== gone) setGone(ended);
  if (!node) {
    if (read.error instanceof Refused && read.error.notFound) return <NotFound what="node" id={id} />;
    return read.error ? <Trouble error={read.error} retry={read.refresh} /> : <Loading rows={6} />;
  }
  return (
    <div className="node">
      <Crumbs href="/nodes" list="Nodes" here={node.id} />
      <header className="page-head">
        <h1>
          <bdi className="mono name">{node.id}</bdi> <Copy text={() => node.id} label="Copy the node's id" />
        </h1>
        <div className="page-acts">
          <TerminalButton node={node} />
          {node.state === "failed" && <HoldButton nodeId={node.id} />}
          <Brakes node={node} />
        </div>
      </header>
      {read.error && <Trouble error={read.error} retry={read.refresh} />}
      <Axes node={node} />
      <div className="columns">
        <div className="column">
          <Ending node={node} path={path} diagnosed={history.data?.some(isDiagnosis) ?? false} />
          <Boot node={node} path={path} own={own} />
          <ConsoleTail node={node} path={path} />
          <History read={history} />
        </div>
        <div className="column">
          <About node={node} />
        </div>
      </div>
    </div>
  );
}

function Brakes({ node }: { node: Node }) {
  const ending = node.state === "terminating" || node.state === "terminated";
  if (ending) return null;
  const busy = node.state === "running" || node.state === "claimed";
  const consequence = busy ? (
    <>
      It belongs to run <Name>{node.run ?? "?"}</Name>, which loses it at once.
    </>
  ) : (
    "Whatever it does ends at once."
  );
  return (
    <>
      {!node.drain && <DrainButton nodeId={node.id} />}
      <TerminateButton nodeId={node.id} text={consequence} />
    </>
  );
}

/** State says who may use it, health how it feels. They have different writers, so they are told apart. */
function Axes({ node }: { node: Node }) {
  const gone = node.state === "terminated";
  return (
    <div className="axes">
      <section className="card axis" aria-label="State" data-testid="axis-state">
        <h2>State</h2>
        <p className="axis-value">
          <StateBadge state={node.state} />
          {node.drain && <Badge tone="warning">drain</Badge>}
        </p>
        {!gone && <p className="faint">{capital(meaning(node))}</p>}
        <p className="faint">
          {gone ? (
            <Ago at={node.entered_at} />
          ) : (
            <>
              for <Elapsed since={node.entered_at} />
            </>
          )}
        </p>
      </section>
      {!gone && (
        <>
          <Health node={node} />
          <Deadline node={node} />
        </>
      )}
    </div>
  );
}

/** What its state means; of a new node, how far it is. */
function meaning(node: Node): string {
  if (node.state !== "created") return STATE_MEANINGS[node.state] ?? "";
  return node.booted_at ? "booted, attaching to its run" : "booting";
}

function Health({ node }: { node: Node }) {
  return (
    <section className="card axis" aria-label="Health" data-testid="axis-health">
      <h2>Health</h2>
      <p className="axis-value">
        <NodeHealth node={node} />
      </p>
      <p className="faint">{wellness(node)}</p>
      {node.last_seen_at && (
        <p className="faint">
          last heard <Ago at={node.last_seen_at} />
        </p>
      )}
    </section>
  );
}

function wellness(node: Node): string {
  if (JUDGED.has(node.state)) return `Not judged: the node ${node.state === "failed" ? "failed" : "is terminating"}`;
  if (!node.health) return "It has not joined yet";
  return capital(node.health_reason || HEALTH_MEANINGS[node.health]);
}

function Deadline({ node }: { node: Node }) {
  const kept = keptWarm(node, usePools());
  const held = node.deadline_source === "hold";
  const name = held ? "look" : (DEADLINE_NAMES[node.state] ?? "deadline");
  return (
    <section className="card axis" aria-label="Deadline" data-testid="axis-deadline">
      <h2>Deadline</h2>
      <p className="axis-value">
        {kept ? (
          "kept warm"
        ) : node.deadline_at ? (
          <Countdown until={node.deadline_at} over={`${name} passed`} />
        ) : (
          <span className="faint">none</span>
        )}
      </p>
      <p className="faint">
        {kept
          ? "The pool keeps it (min_idle) and renews its time"
          : node.deadline_at
            ? held
              ? "Kept for a look: Muster terminates it then"
              : `${capital(name)}: ${DEADLINE_ENDS[node.state] ?? ""}`
            : "It may stay as it is"}
      </p>
      {node.deadline_source && !kept && <p className="faint">set by {plain(node.deadline_source)}</p>}
    </section>
  );
}

const ENDINGS = ["failed", "terminating", "terminated", "releasing"];

/** An event says when a diagnosis was collected. Before that, and for most nodes, the API has none to give. */
const isDiagnosis = (event: FeedEvent) => event.entity === "diagnosis";

type EndingProps = { node: Node; path: string; diagnosed: boolean };

export function Ending({ node, path, diagnosed }: EndingProps) {
  const over = Boolean(node.reason) && ENDINGS.includes(node.state);
  const calm = ORDERLY.has(node.reason ?? "");
  const read = useResource<Bundle>(over && diagnosed ? `${path}/diagnosis` : null);
  if (!over) return null;
  const bundle = read.data;
  const tone = calm ? "neutral" : node.state === "failed" || bundle ? "danger" : "warning";
  return (
    <section className={`failed card tone-${tone}`} aria-label="Why it ended" data-testid="ending" data-tone={tone}>
      <header className="card-head">
        <h2>
          <Badge tone={tone}>{plain(node.reason ?? "")}</Badge>
        </h2>
        {bundle && (
          <span className="faint">
            collected <Ago at={bundle.collected_at} />
          </span>
        )}
      </header>
      {!bundle && (
        <p className="failed-message">
          <Prose>
            {capital(node.detail) ||
              (calm ? "Nothing went wrong: the node was not needed any more, or an operator ended it." : "")}
          </Prose>
        </p>
      )}
      {bundle && (
        <>
          <DiagnosisCard diagnosis={bundle} />
          {bundle.sections.map((section) => (
            <details key={section.name} className="section">
              <summary>
                {capital(plain(section.name))} {section.missing && <span className="faint">– {section.missing}</span>}
              </summary>
              {section.text && <pre className="log">{section.text}</pre>}
            </details>
          ))}
        </>
      )}
    </section>
  );
}

type BootProps = { node: Node; path: string; own: (event: FeedEvent) => boolean };

function Boot({ node, path, own }: BootProps) {
  const booting = node.state === "created" && !node.booted_at;
  const read = useResource<Timeline>(`${path}/boot`, { on: own, ...(booting && { every: 2000 }) });
  return (
    <Card title="Boot" side={booting ? <Badge tone="active">booting</Badge> : null} id="boot">
      <Shown read={read}>
        {(timeline) =>
          timeline.spans.length === 0 ? (
            <p className="calm">Nothing is known of its boot.</p>
          ) : (
            <BootChart timeline={timeline} live={booting} />
          )
        }
      </Shown>
    </Card>
  );
}

function ConsoleTail({ node, path }: { node: Node; path: string }) {
  const gone = node.state === "terminated";
  const read = useResource<Console>(gone ? null : `${path}/console`, gone ? {} : { every: CONSOLE_EVERY });
  if (gone) return null;
  if (read.error instanceof Refused && read.error.notFound) return null;
  const side = read.data && (
    <span className="faint">
      read <Ago at={read.data.read_at} />
    </span>
  );
  return (
    <Card title="Console" side={side} id="console">
      <Shown read={read}>
        {(tail) =>
          tail.text ? (
            <pre className="log" tabIndex={0} aria-label="Console tail">
              {tail.text}
            </pre>
          ) : (
            <p className="calm">
              <bdi>{capital(tail.missing || "it has said nothing yet")}</bdi>
            </p>
          )
        }
      </Shown>
    </Card>
  );
}

function History({ read }: { read: Read<readonly FeedEvent[]> }) {
  return (
    <Card title="Events" side={<span className="faint">newest first</span>}>
      <Shown read={read}>{(events) => <EventList events={[...events].reverse()} />}</Shown>
    </Card>
  );
}

function About({ node }: { node: Node }) {
  return (
    <Card title="About">
      <Facts>
        <Fact name="Template">
          <TemplateLink name={node.template} revision={node.revision} />
        </Fact>
        <Fact name="Run">
          {node.run && (
            <Link href={`/nodes?run=${encodeURIComponent(node.run)}`} title={`All nodes of ${node.run}`}>
              <Name>{node.run}</Name>
            </Link>
          )}
        </Fact>
        <Fact name="Operation">{node.operation_id && <OperationLink id={node.operation_id} full />}</Fact>
        <Fact name="Owner">{node.owner && <Name>{node.owner}</Name>}</Fact>
        <Fact name="Last owner">{node.last_owner && <Name>{node.last_owner}</Name>}</Fact>
        <Fact name="Provider">{node.provider}</Fact>
        <Fact name="Machine">{node.machine_id && <Name mono>{node.machine_id}</Name>}</Fact>
        <Fact name="Instance type">{node.instance_type}</Fact>
        <Fact name="Class">{node.resource_class}</Fact>
        <Fact name="Usage">{node.usage_class}</Fact>
        <Fact name="Assignment">{node.assignment_id && <Name mono>{node.assignment_id}</Name>}</Fact>
        <Fact name="Launch">{node.launch_id && <Name mono>{node.launch_id}</Name>}</Fact>
        <Fact name="Address">{node.address && <Name mono>{node.address}</Name>}</Fact>
        <Fact name="Created">
          <Ago at={node.created_at} />
        </Fact>
        <Fact name="Joined">{node.joined_at && <Ago at={node.joined_at} />}</Fact>
        <Fact name="Booted">{node.booted_at && <Ago at={node.booted_at} />}</Fact>
        <Fact name="Attached">{node.attached_at && <Ago at={node.attached_at} />}</Fact>
      </Facts>
    </Card>
  );
}
