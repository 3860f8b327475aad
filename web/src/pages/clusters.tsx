/** Clusters, each with the banner of what works on it, or last did: a chip per node pool. */

import { useMemo } from "react";
import { poster, Refused } from "../api/client";
import type { Cluster, ClusterState, FeedEvent, Operation, Page, Tone } from "../api/types";
import { useResource } from "../live/resource";
import { Act, useMay } from "../parts/act";
import { Banner } from "../parts/banner";
import { Chips } from "../parts/chips";
import { Crumbs } from "../parts/crumbs";
import { Fact, Facts } from "../parts/facts";
import { FailureCard } from "../parts/failure";
import { Icon } from "../parts/icons";
import { Portal } from "../parts/portal";
import { Empty, Loading, NotFound, Shown, Trouble } from "../parts/states";
import { Ago, Badge, Name, TemplateLink } from "../parts/words";
import { Link, navigate, setQuery, to, useAddress } from "../routing/router";
import { capital, counted, ended, plain } from "../words/names";
import { CreateClusterDialog } from "./cluster-create";

const TONES: Record<ClusterState, Tone> = {
  creating: "active",
  ready: "success",
  failed: "danger",
  deleting: "warning",
  deleted: "pending",
};
const ofClusters = (event: FeedEvent) => event.entity === "cluster";

const NEWEST = 100;

/** The last create of each name, if it failed and no cluster has the name now: it stays to be read. */
export function failedCreates(creates: readonly Operation[], clusters: readonly Cluster[]): Operation[] {
  const taken = new Set(clusters.map((each) => each.name));
  const failed: Operation[] = [];
  for (const each of creates) {
    const name = each.detail?.cluster;
    if (!name || taken.has(name)) continue;
    taken.add(name); // newest first: older ones of that name are history
    if (each.status === "failed") failed.push(each);
  }
  return failed;
}

export function Clusters() {
  const read = useResource<Page<Cluster>>("/clusters", { on: ofClusters });
  const creates = useResource<Page<Operation>>("/operations", {
    query: { kind: "cluster_create", limit: NEWEST },
    on: ofClusters,
  });
  const { query } = useAddress();
  const operator = useMay("operator");
  return (
    <>
      <header className="page-head">
        <h1>Clusters</h1>
        {operator && (read.data?.items.length ?? 0) > 0 && (
          <div className="page-acts">
            <CreateButton />
          </div>
        )}
      </header>
      <Shown read={read}>
        {({ items }) => {
          const failed = failedCreates(creates.data?.items ?? [], items);
          return items.length + failed.length === 0 ? (
            <Empty title="No clusters">
              <p>
                A cluster is made from a template with <code>provider = "aks"</code>
                {operator && (
                  <>
                    , here or by <code>muster clusters create NAME --template TEMPLATE</code>
                  </>
                )}
                .
              </p>
              {operator && <CreateButton />}
            </Empty>
          ) : (
            <div className="banners">
              {failed.map((each) => (
                <FailedCreate key={each.operation_id} operation={each} />
              ))}
              {items.map((cluster) => (
                <ClusterCard key={cluster.id} cluster={cluster} />
              ))}
            </div>
          );
        }}
      </Shown>
      {operator && query.has("create") && (
        <CreateClusterDialog name={query.get("name") ?? ""} template={query.get("template") ?? ""} />
      )}
    </>
  );
}

function CreateButton() {
  return (
    <button type="button" className="button button-primary" onClick={() => setQuery({ create: "cluster" }, "push")}>
      <Icon name="plus" />
      Create a cluster
    </button>
  );
}

function FailedCreate({ operation }: { operation: Operation }) {
  const name = operation.detail?.cluster ?? "";
  const operator = useMay("operator");
  const again = () =>
    setQuery({ create: "cluster", name, template: operation.template ?? operation.detail?.template ?? "" }, "push");
  return (
    <section className="cluster card" data-testid="failed-create" aria-label={`Create of ${name} failed`}>
      <header className="card-head">
        <h2>
          <Name>{name}</Name> <Badge tone="danger">create failed</Badge>
        </h2>
        <div className="card-side">
          {operator && (
            <button type="button" className="button" onClick={again}>
              Retry<span className="unseen"> with {name}</span>
            </button>
          )}
          <Link className="button" href={to("operations", operation.operation_id)} aria-label={`Details of ${name}`}>
            Details
          </Link>
        </div>
      </header>
      <Banner operation={operation} detailed={false} />
      {operation.error && <FailureCard error={operation.error} />}
      {operation.message && (
        <p className="faint">
          <bdi>{capital(operation.message)}</bdi>
          {operation.ended_at && (
            <>
              {" · "}
              <Ago at={operation.ended_at} />
            </>
          )}
        </p>
      )}
    </section>
  );
}

/** By name or id. */
export function ClusterPage({ name }: { name: string }) {
  const read = useResource<Cluster>(`/clusters/${encodeURIComponent(name)}`, { on: ofClusters });
  if (read.error instanceof Refused && read.error.notFound) return <NotFound what="cluster" id={name} />;
  if (read.data) {
    return (
      <>
        <Crumbs href="/clusters" list="Clusters" here={read.data.name} />
        <ClusterCard cluster={read.data} />
      </>
    );
  }
  return read.error ? <Trouble error={read.error} retry={read.refresh} /> : <Loading rows={4} />;
}

export function ClusterCard({ cluster }: { cluster: Cluster }) {
  const id = cluster.operation_id;
  const { data: operation } = useResource<Operation>(id ? `/operations/${encodeURIComponent(id)}` : null, {
    on: (event) => event.entity_id === id,
  });
  return (
    <section
      className="cluster card"
      data-testid="cluster"
      data-state={cluster.state}
      aria-label={`Cluster ${cluster.name}`}
    >
      <header className="card-head">
        <h2>
          <Link className="name" href={to("clusters", cluster.name)}>
            <Name>{cluster.name}</Name>
          </Link>{" "}
          <Badge tone={TONES[cluster.state] ?? "pending"}>{plain(cluster.state)}</Badge>
        </h2>
        <div className="card-side">
          {(!operation || ended(operation.status)) && <Portal url={cluster.console_url} />}
          {operation && ended(operation.status) && (
            <Link className="button" href={to("operations", operation.operation_id)}>
              Details<span className="unseen"> of {cluster.name}</span>
            </Link>
          )}
          <Delete cluster={cluster} />
        </div>
      </header>
      {cluster.detail && cluster.detail !== operation?.error?.message && (
        <p>
          <bdi>{cluster.detail}</bdi>
        </p>
      )}
      {operation?.status === "succeeded" && <Chips parts={operation.parts} />}
      {operation && operation.status !== "succeeded" && (
        <Banner operation={operation} detailed={!ended(operation.status)} />
      )}
      {operation?.error && <FailureCard error={operation.error} />}
      <Facts>
        <Fact name="Template">
          <TemplateLink name={cluster.template} revision={cluster.revision} />
        </Fact>
        <Fact name="Nodes">{typeof cluster.nodes === "number" && counted(cluster.nodes, "node")}</Fact>
        <Fact name="Where">{[cluster.provider, cluster.region, cluster.group].filter(Boolean).join(" · ")}</Fact>
        <Fact name="Kubernetes">{cluster.kubernetes_version}</Fact>
        <Fact name="Address">{cluster.fqdn && <Name mono>{cluster.fqdn}</Name>}</Fact>
        <Fact name="Created">{cluster.created_at && <Ago at={cluster.created_at} />}</Fact>
        <Fact name="Ready">{cluster.ready_at && <Ago at={cluster.ready_at} />}</Fact>
      </Facts>
    </section>
  );
}

function Delete({ cluster }: { cluster: Cluster }) {
  const { id, name } = cluster;
  // A cluster that takes over the name is another one, and its deletion another request.
  const send = useMemo(() => poster<Operation>(`/clusters/${encodeURIComponent(name)}/delete`), [id, name]);
  if (cluster.state === "deleting" || cluster.state === "deleted") return null;
  const making = cluster.state === "creating";
  const remove = async () => {
    const operation = await send();
    navigate(to("operations", operation.operation_id));
  };
  const words = {
    title: `Delete ${cluster.name}?`,
    text: making
      ? "Its creation stops, and Muster removes what exists of it."
      : "Muster deletes the cluster and everything that runs on it. This can't be undone.",
    yes: "Delete",
  };
  return (
    <Act needs="operator" kind="danger" act={remove} confirm={words}>
      Delete<span className="unseen"> {cluster.name}</span>
    </Act>
  );
}
