/** Clusters, each with the banner of what works on it, or last did: a chip per node pool. */

import { useMemo } from "react";
import { poster, Refused } from "../api/client";
import type { FeedEvent, Operation, Page, Tone } from "../api/types";
import { useResource } from "../live/resource";
import { Act } from "../parts/act";
import { Banner } from "../parts/banner";
import { Fact, Facts } from "../parts/facts";
import { Empty, Loading, NotFound, Shown, Trouble } from "../parts/states";
import { Ago, Badge, Name, TemplateLink } from "../parts/words";
import { Link, navigate, to } from "../routing/router";
import { counted, plain } from "../words/names";

export interface Cluster {
  id: string;
  name: string;
  state: string;
  template: string;
  revision?: number;
  provider?: string;
  operation_id?: string | null;
  created_at?: string;
  ready_at?: string | null;
  resource_group?: string;
  region?: string;
  nodes?: number;
  kubernetes_version?: string;
  fqdn?: string;
  portal_url?: string;
  reason?: string | null;
  detail?: string;
}

const TONES: Record<string, Tone> = {
  creating: "active",
  ready: "success",
  failed: "danger",
  deleting: "warning",
  deleted: "pending",
};
const ofClusters = (event: FeedEvent) => event.entity === "cluster";

export function Clusters() {
  const read = useResource<Page<Cluster>>("/clusters", { on: ofClusters });
  return (
    <>
      <header className="page-head">
        <h1>Clusters</h1>
      </header>
      <Shown read={read}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No clusters">
              <p>
                Make one with <code>muster clusters create</code>, from a template whose provider makes clusters. It is
                listed from the moment that it is accepted.
              </p>
            </Empty>
          ) : (
            <div className="banners">
              {items.map((cluster) => (
                <ClusterCard key={cluster.id} cluster={cluster} />
              ))}
            </div>
          )
        }
      </Shown>
    </>
  );
}

/** By name or id. */
export function ClusterPage({ name }: { name: string }) {
  const read = useResource<Cluster>(`/clusters/${encodeURIComponent(name)}`, { on: ofClusters });
  if (read.error instanceof Refused && read.error.notFound) return <NotFound what="cluster" id={name} />;
  if (read.data) return <ClusterCard cluster={read.data} />;
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
          <Link href={to("clusters", cluster.name)}>
            <Name>{cluster.name}</Name>
          </Link>{" "}
          <Badge tone={TONES[cluster.state] ?? "pending"}>{plain(cluster.state)}</Badge>
        </h2>
        <div className="card-side">
          <Portal url={cluster.portal_url} />
          <Delete cluster={cluster} />
        </div>
      </header>
      {cluster.detail && cluster.detail !== operation?.error?.message && (
        <p>
          <bdi>{cluster.detail}</bdi>
        </p>
      )}
      {operation && <Banner operation={operation} />}
      <Facts>
        <Fact name="Template">
          <TemplateLink name={cluster.template} revision={cluster.revision} />
        </Fact>
        <Fact name="Nodes">{typeof cluster.nodes === "number" && counted(cluster.nodes, "node")}</Fact>
        <Fact name="Where">
          {[cluster.provider, cluster.region, cluster.resource_group].filter(Boolean).join(" · ")}
        </Fact>
        <Fact name="Kubernetes">{cluster.kubernetes_version}</Fact>
        <Fact name="Address">{cluster.fqdn && <Name mono>{cluster.fqdn}</Name>}</Fact>
        <Fact name="Created">{cluster.created_at && <Ago at={cluster.created_at} />}</Fact>
        <Fact name="Ready">{cluster.ready_at && <Ago at={cluster.ready_at} />}</Fact>
      </Facts>
    </section>
  );
}

/** Out of the page, into the provider's own console; it is told nothing of where one comes from. */
function Portal({ url }: { url: string | undefined }) {
  if (!url?.startsWith("https:")) return null;
  return (
    <a className="button" href={url} target="_blank" rel="noreferrer noopener">
      Open in the cloud console
    </a>
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
      ? "It is still being made: that is stopped, and what there is of it is removed."
      : "The cluster and everything that runs on it are removed. This can't be undone.",
    yes: "Delete",
  };
  return (
    <Act needs="operator" kind="danger" act={remove} confirm={words}>
      Delete<span className="unseen"> {cluster.name}</span>
    </Act>
  );
}
