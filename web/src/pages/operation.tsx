/** One operation: how far it is, why it waits, why it failed, what it made. Finished ones read the same. */

import { Refused } from "../api/client";
import type { FeedEvent, Operation, Page, Why } from "../api/types";
import { useHistory } from "../live/history";
import { useResource } from "../live/resource";
import { useMay } from "../parts/act";
import { Banner } from "../parts/banner";
import { Copy } from "../parts/copy";
import { Crumbs } from "../parts/crumbs";
import { EventList } from "../parts/events";
import { Card, Fact, Facts } from "../parts/facts";
import { FailureCard } from "../parts/failure";
import { Loading, NotFound, Shown, Trouble } from "../parts/states";
import { StepTimeline } from "../parts/steps";
import { Ago, By, Countdown, Name, OperationLink, StatusBadge, TemplateLink } from "../parts/words";
import { Link } from "../routing/router";
import { capital, ended, plain } from "../words/names";
import { given } from "../words/time";
import { Commands } from "./operation-commands";
import { Afterwards, Members, useNodesOf } from "./operation-nodes";

const FIRST_EVENTS = 200;

export function OperationPage({ id }: { id: string }) {
  const path = `/operations/${encodeURIComponent(id)}`;
  const own = (event: FeedEvent) => event.entity_id === id;
  const read = useResource<Operation>(path, { on: own, gap: 250 });
  const history = useHistory(id);
  // Of a long operation the last events don't reach back to its first steps.
  const beginning = useResource<Page<FeedEvent>>("/events", { query: { entity_id: id, limit: FIRST_EVENTS } });
  const operation = read.data;
  const nodes = useNodesOf(operation, id).data?.items ?? [];
  if (!operation) {
    if (read.error instanceof Refused && read.error.notFound) return <NotFound what="operation" id={id} />;
    return read.error ? <Trouble error={read.error} retry={read.refresh} /> : <Loading rows={6} />;
  }
  const over = ended(operation.status);
  return (
    <div className="operation">
      <Crumbs href="/operations" list="Operations" here={operation.run ?? operation.operation_id} />
      <header className="page-head">
        <h1>
          {capital(plain(operation.kind))}{" "}
          {(operation.run ?? operation.detail?.cluster) && (
            <Name>{operation.run ?? operation.detail?.cluster ?? ""}</Name>
          )}{" "}
          <StatusBadge status={operation.status} />
        </h1>
        <div className="page-acts">
          <Afterwards operation={operation} nodes={nodes} />
          <Retry operation={operation} />
          <Copy text={() => location.href}>Copy link</Copy>
        </div>
      </header>
      {read.error && <Trouble error={read.error} retry={read.refresh} />}
      {/* The table of its nodes tells what became of them since. */}
      <Banner operation={operation} detailed={false} parts={!over || nodes.length === 0} />
      {operation.status === "cancelled" && <Cancelled events={history.data ?? []} />}
      {operation.status === "failed" && operation.error && <FailureCard error={operation.error} />}
      {operation.status === "queued" && <Waiting id={id} />}
      <div className="columns">
        <div className="column">
          <Card title="Steps">
            <StepTimeline operation={operation} events={[...(beginning.data?.items ?? []), ...(history.data ?? [])]} />
          </Card>
          <Members operation={operation} nodes={nodes} />
          {(operation.kind === "run" || operation.kind === "provision") && <Commands operation={operation} />}
          <Card title="Events" side={<span className="faint">newest first</span>}>
            <Shown read={history}>{(events) => <EventList events={[...events].reverse()} />}</Shown>
          </Card>
        </div>
        <div className="column">
          <About operation={operation} />
        </div>
      </div>
    </div>
  );
}

/** The same request once more, shown before it is sent. What a run executed isn't kept whole: it has none. */
function Retry({ operation }: { operation: Operation }) {
  const operator = useMay("operator");
  const href = retryOf(operation);
  if (!operator || !href) return null;
  return (
    <Link className="button" href={href}>
      Retry
    </Link>
  );
}

const joined = (value: unknown, by: string): string | null => (Array.isArray(value) ? value.join(by) : null);

export function retryOf(operation: Operation): string {
  if (operation.status !== "failed" && operation.status !== "cancelled") return "";
  const asked = operation.request ?? {};
  const template = operation.template ?? operation.detail?.template ?? "";
  if (operation.kind === "cluster_create") {
    return `/clusters?${new URLSearchParams({ create: "cluster", name: operation.detail?.cluster ?? "", template })}`;
  }
  if (operation.kind !== "provision") return "";
  const query = new URLSearchParams({ provision: template });
  const text = (name: string, value: unknown) => {
    if (typeof value === "string" || typeof value === "number") query.set(name, String(value));
  };
  text("count", asked["count"]);
  text("run", operation.run);
  text("class", asked["resource_class"]);
  text("usage", joined(asked["usage"], "+"));
  text("types", joined(asked["instance_types"], ", "));
  text("queue", typeof asked["queue_timeout"] === "number" ? asked["queue_timeout"] / 60 : null);
  return `/operations/${encodeURIComponent(operation.operation_id)}?${query}`;
}

/** Who wanted it so. What one can do then is beside it: Retry. */
function Cancelled({ events }: { events: readonly FeedEvent[] }) {
  const actor = events.find((event) => event.name === "cancel_requested")?.actor;
  if (!actor) return null;
  return (
    <p className="why faint" data-testid="cancelled-by">
      Cancelled <By who={actor} />
    </p>
  );
}

/** Only what the banner doesn't say: the place in the queue, and when waiting is over. */
function Waiting({ id }: { id: string }) {
  const read = useResource<Why>(`/operations/${encodeURIComponent(id)}/why`, {
    on: (event) => event.entity_id === id,
    gap: 500,
  });
  const why = read.data;
  if (!why?.waits_for) return null;
  return (
    <p className="why faint" data-testid="why">
      {typeof why.position === "number" && `Place ${why.position} in the queue · `}
      <Countdown until={why.until} ahead="gives up in " over="deadline passed" />
    </p>
  );
}

function About({ operation }: { operation: Operation }) {
  const asked = operation.request ?? {};
  const of = typeof asked["operation_id"] === "string" ? asked["operation_id"] : null;
  const number = (name: string) => (typeof asked[name] === "number" ? (asked[name] as number) : null);
  const words = (name: string) => (Array.isArray(asked[name]) ? (asked[name] as string[]).join(", ") : null);
  const patience = number("queue_timeout");
  const runtime = number("max_runtime");
  return (
    <Card title="About">
      <Facts>
        <Fact name="Operation">
          <bdi className="mono name">{operation.operation_id}</bdi>
        </Fact>
        <Fact name="Template">{operation.template && <TemplateLink name={operation.template} />}</Fact>
        <Fact name="Provision">{of && <OperationLink id={of} full />}</Fact>
        <Fact name="Nodes asked for">{operation.detail?.count ?? number("count")}</Fact>
        <Fact name="Owner">{typeof asked["owner"] === "string" && <Name>{asked["owner"]}</Name>}</Fact>
        <Fact name="Class">{typeof asked["resource_class"] === "string" && asked["resource_class"]}</Fact>
        <Fact name="Usage">{words("usage")}</Fact>
        <Fact name="Instance types">{words("instance_types")}</Fact>
        <Fact name="Began">
          <Ago at={operation.started_at} />
        </Fact>
        <Fact name="Ended">{operation.ended_at && <Ago at={operation.ended_at} />}</Fact>
        <Fact name="Deadline">
          {!ended(operation.status) && operation.deadline_at && (
            <>
              <Countdown until={operation.deadline_at} ahead="in " />{" "}
              <span className="faint">({operation.deadline_source})</span>
            </>
          )}
        </Fact>
        <Fact name="Waits for room up to">{patience !== null && patience > 0 && given(patience)}</Fact>
        <Fact name="May run for">{runtime !== null && given(runtime)}</Fact>
        <Fact name="Result">
          {operation.result && operation.result !== operation.message && <bdi>{operation.result}</bdi>}
        </Fact>
      </Facts>
    </Card>
  );
}
