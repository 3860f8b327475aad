/** One template: its revision and settings, its pool, and how long its boots take against what they are given. */

import { Refused } from "../api/client";
import type { BootKind, Boots, ClusterSpec, FeedEvent, Template } from "../api/types";
import { usePoolsRead } from "../live/pools";
import { useResource } from "../live/resource";
import { useMay } from "../parts/act";
import { Histogram } from "../parts/charts";
import { Crumbs } from "../parts/crumbs";
import { Card, Fact, Facts } from "../parts/facts";
import { Icon } from "../parts/icons";
import { TemplateCharts } from "../parts/lazy";
import { PoolBar } from "../parts/pool";
import { Empty, Loading, NotFound, Shown, Trouble } from "../parts/states";
import { Ago, Badge, Name } from "../parts/words";
import { Link, setQuery } from "../routing/router";
import { plain } from "../words/names";
import { given, took } from "../words/time";

const ofBoots = (event: FeedEvent) => event.entity === "node" && event.name === "booted";

export function TemplatePage({ name }: { name: string }) {
  const path = `/templates/${encodeURIComponent(name)}`;
  const own = (event: FeedEvent) => event.entity_id === name || event.entity === "installation";
  const read = useResource<Template>(path, { on: own });
  const operator = useMay("operator");
  const template = read.data;
  if (!template) {
    if (read.error instanceof Refused && read.error.notFound) return <NotFound what="template" id={name} />;
    return read.error ? <Trouble error={read.error} retry={read.refresh} /> : <Loading rows={6} />;
  }
  return (
    <div className="template">
      <Crumbs href="/templates" list="Templates" here={template.name} />
      <header className="page-head">
        <h1>
          <Name>{template.name}</Name> <span className="faint">revision {template.revision}</span>{" "}
          {template.retired && <Badge tone="pending">retired</Badge>}
          {template.paused && <Badge tone="warning">paused</Badge>}
        </h1>
        <div className="page-acts">
          {operator && template.runtime !== "service" && !template.cluster && !template.retired && (
            <button type="button" className="button" onClick={() => setQuery({ provision: template.name }, "push")}>
              <Icon name="plus" />
              Provision
            </button>
          )}
          {template.cluster ? (
            <Link className="button" href="/clusters">
              Clusters
            </Link>
          ) : (
            <Link className="button" href={`/nodes?template=${encodeURIComponent(name)}`}>
              Nodes
            </Link>
          )}
        </div>
      </header>
      <div className="columns">
        <div className="column">
          {template.cluster ? (
            <NodePools cluster={template.cluster} />
          ) : (
            <>
              <PoolCard name={name} />
              <TemplateCharts name={name} />
              <BootsCard path={path} />
            </>
          )}
          {template.boot_script && (
            <Card title="Boot script">
              <pre className="log" tabIndex={0} aria-label="Boot script">
                {template.boot_script}
              </pre>
            </Card>
          )}
        </div>
        <div className="column">
          {template.cluster ? (
            <ClusterSettings template={template} cluster={template.cluster} path={path} />
          ) : (
            <Settings template={template} path={path} />
          )}
        </div>
      </div>
    </div>
  );
}

/** What one cluster is made of. */
function NodePools({ cluster }: { cluster: ClusterSpec }) {
  return (
    <Card title="Node pools of a cluster" id="node-pools">
      <table className="plain-table">
        <thead>
          <tr>
            <th>Name</th>
            <th>Nodes</th>
            <th>VM size</th>
            <th className="wide">Mode</th>
          </tr>
        </thead>
        <tbody>
          {cluster.pools.map((pool) => (
            <tr key={pool.name}>
              <td className="cell-name">
                <Name>{pool.name}</Name>
              </td>
              <td className="figures">{pool.count ?? 1}</td>
              <td>
                <bdi>{pool.vm_size}</bdi>
              </td>
              <td className="wide">{pool.mode}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

interface ClusterSettingsProps {
  template: Template;
  cluster: ClusterSpec;
  path: string;
}

function ClusterSettings({ template, cluster, path }: ClusterSettingsProps) {
  const { data: boots } = useResource<Boots>(`${path}/boots`);
  const roles = (cluster.roles ?? []).map((each) => each.role).join(", ");
  return (
    <Card title="Settings">
      <Facts>
        <Fact name="Provider">{template.provider}</Fact>
        <Fact name="Region">{cluster.region}</Fact>
        <Fact name="Resource group">{cluster.resource_group && <Name>{cluster.resource_group}</Name>}</Fact>
        <Fact name="Subscription">{cluster.subscription && <Name mono>{cluster.subscription}</Name>}</Fact>
        <Fact name="Kubernetes">{cluster.kubernetes_version || "the provider's default"}</Fact>
        <Fact name="Deadline">
          <Given own={template.provision_timeout} holds={boots?.deadline.seconds} />
        </Fact>
        <Fact name="Identity">{cluster.identity && <Name>{cluster.identity}</Name>}</Fact>
        <Fact name="Roles">{roles}</Fact>
        <Fact name="A failed one">{cluster.keep_failed ? "is kept for a look" : "is removed"}</Fact>
        <Fact name="Applied">
          <Ago at={template.applied_at} />
        </Fact>
      </Facts>
    </Card>
  );
}

/** A time as it holds now; "default" says that the template leaves it to the server. */
function Given({ own, holds }: { own: number | null | undefined; holds?: number | null | undefined }) {
  if (typeof own === "number") return given(own);
  if (typeof holds !== "number") return <span className="faint">default</span>;
  return (
    <>
      {given(holds)} <span className="faint">default</span>
    </>
  );
}

function PoolCard({ name }: { name: string }) {
  const read = usePoolsRead();
  return (
    <Card title="Pool">
      <Shown read={read} rows={1}>
        {({ items }) => {
          const pool = items.find((each) => each.template === name);
          return pool ? <PoolBar pool={pool} named={false} /> : <p className="calm">It has no pool.</p>;
        }}
      </Shown>
    </Card>
  );
}

function BootsCard({ path }: { path: string }) {
  const read = useResource<Boots>(`${path}/boots`, { on: ofBoots, gap: 2000 });
  return (
    <Card title="Boot times" side={<span className="faint">of this revision</span>} id="boots">
      <Shown read={read}>
        {(boots) =>
          boots.kinds.length === 0 ? (
            <Empty title="No boots of this revision yet">
              <p>
                Until there are some, a boot is given {given(boots.deadline.seconds)} ({boots.deadline.source}).
              </p>
            </Empty>
          ) : (
            boots.kinds.map((kind) => <Kind key={kind.instance_type} kind={kind} ceiling={boots.ceiling_seconds} />)
          )
        }
      </Shown>
    </Card>
  );
}

function Kind({ kind, ceiling }: { kind: BootKind; ceiling: number }) {
  const seconds = kind.seconds ?? kind.last.map((boot) => boot.seconds);
  return (
    <section className="kind" aria-label={`Boots of ${kind.instance_type}`}>
      <h3>
        <Name>{kind.instance_type}</Name>
      </h3>
      <Histogram seconds={seconds} total={kind.total} deadline={kind.deadline} />
      <p className="faint">
        {lesson(kind)} A boot that advances is extended up to {given(ceiling)}.
      </p>
      {kind.phases.length > 0 && (
        <ul className="phases" aria-label="Median of each phase">
          <li className="faint">Median of each phase:</li>
          {kind.phases.map((span) => (
            <li key={span.name}>
              <bdi>{plain(span.name)}</bdi> <span className="figures">{took(span.seconds)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Learning only ever lengthens what is set. */
function lesson({ learned, deadline }: BootKind): string {
  if (!learned) return "Too few boots to learn a deadline from.";
  if (learned.seconds > deadline.seconds || deadline.source.startsWith("learned")) {
    return `Learned from these boots: ${given(learned.seconds)} (${learned.basis}, with a margin).`;
  }
  const learnt = `Their p99 with a margin is ${given(learned.seconds)}`;
  return `${learnt}. Learning never shortens a deadline, so ${given(deadline.seconds)} stays.`;
}

function Settings({ template, path }: { template: Template; path: string }) {
  const { data: boots } = useResource<Boots>(`${path}/boots`);
  const time = (own: number | null | undefined, holds?: number | null) => <Given own={own} holds={holds} />;
  const types = template.instance_types.join(", ");
  return (
    <Card title="Settings">
      <Facts>
        <Fact name="Provider">{template.provider}</Fact>
        <Fact name="Runtime">{template.runtime}</Fact>
        <Fact name="Class">{template.resource_class}</Fact>
        {template.classes?.map((each) => (
          <Fact key={each.name} name={`Class ${each.name}`}>
            {each.cpu} processors, {each.memory_mib} MiB
          </Fact>
        ))}
        <Fact name="Usage">{template.usage.join(", ")}</Fact>
        <Fact name="Instance types">{types === "*" ? "any" : types}</Fact>
        <Fact name="Reuse">{template.reuse}</Fact>
        <Fact name="Kept warm (min_idle)">{template.min_idle}</Fact>
        <Fact name="At most">{template.max_nodes} nodes</Fact>
        <Fact name="Replacements">{template.replacements}</Fact>
        <Fact name="Boot deadline">{time(template.provision_timeout, boots?.deadline.seconds)}</Fact>
        <Fact name="Extended up to">{time(template.max_provision_timeout, boots?.ceiling_seconds)}</Fact>
        <Fact name="Stalled after">{time(template.stall_after, boots?.stall_after_seconds)}</Fact>
        <Fact name="Learns from boots">{template.learn === false ? "no" : "yes"}</Fact>
        <Fact name="Attach within">{time(template.attach_timeout, boots?.attach_seconds)}</Fact>
        <Fact name="May run for">{time(template.max_runtime)}</Fact>
        <Fact name="Idle for">{time(template.idle_timeout)}</Fact>
        <Fact name="Rescue window">{time(template.rescue_window)}</Fact>
        <Fact name="Applied">
          <Ago at={template.applied_at} />
        </Fact>
      </Facts>
    </Card>
  );
}
