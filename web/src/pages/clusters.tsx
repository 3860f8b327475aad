/** Clusters, each with the banner of what works on it, or last did: a chip per node pool. */

import { Refused } from "../api/client";
import type { FeedEvent, Operation, Page, Part } from "../api/types";
import { useResource } from "../live/resource";
import { Banner } from "../parts/banner";
import { Chips } from "../parts/chips";
import { Fact, Facts } from "../parts/facts";
import { Empty, Shown } from "../parts/states";
import { Ago, Badge, Name, TemplateLink } from "../parts/words";
import { ended, plain } from "../words/names";
import type { Tone } from "../api/types";

export interface Cluster {
  id: string;
  name: string;
  template?: string | null;
  revision?: number;
  provider?: string;
  state: string;
  operation_id?: string | null;
  created_at?: string;
  ready_at?: string | null;
  kubernetes_version?: string;
  fqdn?: string;
  reason?: string | null;
  detail?: string;
  parts?: Part[];
}

const TONES: Record<string, Tone> = {
  creating: "active",
  ready: "success",
  deleting: "warning",
  deleted: "pending",
  failed: "danger",
};
const ofClusters = (event: FeedEvent) => event.entity === "cluster";

export function Clusters() {
  const read = useResource<Page<Cluster>>("/clusters", { on: ofClusters });
  const none = read.error instanceof Refused && read.error.notFound;
  return (
    <>
      <header className="page-head">
        <h1>Clusters</h1>
      </header>
      {none ? (
        <Empty title="This server makes no clusters">
          <p>No provider for whole clusters is set up here.</p>
        </Empty>
      ) : (
        <Shown read={read}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title="No clusters">
                <p>
                  Make one with <code>muster clusters create</code>; it is listed from the moment that it is accepted.
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
      )}
    </>
  );
}

export function ClusterCard({ cluster }: { cluster: Cluster }) {
  const id = cluster.operation_id;
  const { data: operation } = useResource<Operation>(id ? `/operations/${encodeURIComponent(id)}` : null, {
    on: (event) => event.entity_id === id,
  });
  const working = operation !== undefined && !ended(operation.status);
  return (
    <section
      className="cluster card"
      data-testid="cluster"
      data-state={cluster.state}
      aria-label={`Cluster ${cluster.name}`}
    >
      <header className="card-head">
        <h2>
          <Name>{cluster.name}</Name> <Badge tone={TONES[cluster.state] ?? "pending"}>{plain(cluster.state)}</Badge>
        </h2>
        {cluster.template && <TemplateLink name={cluster.template} revision={cluster.revision} />}
      </header>
      {cluster.detail && (
        <p>
          <bdi>{cluster.detail}</bdi>
        </p>
      )}
      {working || operation?.status === "failed" ? (
        <Banner operation={operation} />
      ) : (
        <Chips parts={cluster.parts ?? operation?.parts} />
      )}
      <Facts>
        <Fact name="Provider">{cluster.provider}</Fact>
        <Fact name="Kubernetes">{cluster.kubernetes_version}</Fact>
        <Fact name="Address">{cluster.fqdn && <Name mono>{cluster.fqdn}</Name>}</Fact>
        <Fact name="Created">{cluster.created_at && <Ago at={cluster.created_at} />}</Fact>
        <Fact name="Ready">{cluster.ready_at && <Ago at={cluster.ready_at} />}</Fact>
      </Facts>
    </section>
  );
}
