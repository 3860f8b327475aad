/** All templates: the recipes that nodes are made from. */

import type { FeedEvent, Pools, Template } from "../api/types";
import { useResource } from "../live/resource";
import { Empty, Shown } from "../parts/states";
import { Ago, Badge, TemplateLink } from "../parts/words";

const ofTemplates = (event: FeedEvent) => event.entity === "template" || event.entity === "installation";
const ofPools = (event: FeedEvent) => ["node", "template", "launch", "installation"].includes(event.entity);

export function Templates() {
  const read = useResource<{ items: Template[] }>("/templates", { on: ofTemplates });
  const pools = useResource<Pools>("/pools", { on: ofPools, gap: 1000 });
  const poolOf = new Map((pools.data?.items ?? []).map((pool) => [pool.template, pool]));
  return (
    <>
      <header className="page-head">
        <h1>Templates</h1>
      </header>
      <Shown read={read} rows={5}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No templates yet">
              <p>
                Describe one in <code>muster.toml</code>, then run <code>muster apply</code>.
              </p>
            </Empty>
          ) : (
            <div className="rows card">
              <table className="plain-table">
                <thead>
                  <tr>
                    <th>Template</th>
                    <th className="wide">Provider</th>
                    <th className="wide">Class</th>
                    <th className="wide">Runtime</th>
                    <th>Warm</th>
                    <th>In use</th>
                    <th className="wide">Applied</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((each) => {
                    const pool = poolOf.get(each.name);
                    return (
                      <tr key={each.name} data-testid="template-row">
                        <td className="cell-name">
                          <TemplateLink name={each.name} revision={each.revision} />{" "}
                          {each.retired && <Badge tone="pending">retired</Badge>}
                          {each.paused && <Badge tone="warning">paused</Badge>}
                        </td>
                        <td className="wide">{each.provider}</td>
                        <td className="wide">{each.resource_class}</td>
                        <td className="wide">{each.runtime}</td>
                        <td className="figures">
                          {pool ? pool.idle : "–"}{" "}
                          {each.min_idle > 0 && <span className="faint">keeps {each.min_idle}</span>}
                        </td>
                        <td className="figures">
                          {pool ? pool.used : "–"} <span className="faint">of {each.max_nodes}</span>
                        </td>
                        <td className="wide">
                          <Ago at={each.applied_at} />
                        </td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
    </>
  );
}
