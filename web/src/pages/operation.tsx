/** One operation: how far it is, why it waits, why it failed, what it made. Finished ones read the same. */

import { Refused } from "../api/client";
import type { FeedEvent, Operation, Page, Why } from "../api/types";
import { useHistory } from "../live/history";
import { useResource } from "../live/resource";
import { Banner } from "../parts/banner";
import { Copy } from "../parts/copy";
import { EventList } from "../parts/events";
import { Card, Fact, Facts } from "../parts/facts";
import { FailureCard } from "../parts/failure";
import { Loading, NotFound, Shown, Trouble } from "../parts/states";
import { StepTimeline } from "../parts/steps";
import { Ago, Countdown, Elapsed, Name, OperationLink, StatusBadge, TemplateLink } from "../parts/words";
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
          <Copy text={() => location.href}>Copy link</Copy>
        </div>
      </header>
      {read.error && <Trouble error={read.error} retry={read.refresh} />}
      <Banner operation={operation} detailed={false} />
      {operation.error && <FailureCard error={operation.error} />}
      {!over && <Waiting id={id} />}
      <div className="columns">
        <div className="column">
          <Card title="Steps">
            <StepTimeline operation={operation} events={[...(beginning.data?.items ?? []), ...(history.data ?? [])]} />
          </Card>
          <Members operation={operation} nodes={nodes} />
          {(operation.kind === "run" || operation.kind === "provision") && <Commands operation={operation} />}
          <Card title="Events" side={<span className="faint">newest first</span>}>
            <Shown read={history}>{(events) => <EventList events={[...events].reverse()} about={false} />}</Shown>
          </Card>
        </div>
        <div className="column">
          <About operation={operation} />
        </div>
      </div>
    </div>
  );
}

function Waiting({ id }: { id: string }) {
  const read = useResource<Why>(`/operations/${encodeURIComponent(id)}/why`, {
    on: (event) => event.entity_id === id,
    gap: 500,
  });
  const why = read.data;
  if (!why?.waits_for) return null;
  return (
    <section className="why card" aria-label="Why is it waiting" data-testid="why">
      <h2>Why is it waiting?</h2>
      <p>
        <bdi>{capital(why.waits_for)}</bdi>
      </p>
      <p className="faint">
        for <Elapsed since={why.since} />
        {typeof why.position === "number" && ` · place ${why.position} in the queue`} · it is given up{" "}
        <Countdown until={why.until} ahead="in " />
      </p>
    </section>
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
        <Fact name="Of">{of && <OperationLink id={of} full />}</Fact>
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
        <Fact name="Result">{operation.result && <bdi>{operation.result}</bdi>}</Fact>
      </Facts>
    </Card>
  );
}
