/** All templates: the recipes that nodes are made from. */

import { lazy, Suspense } from "react";
import type { FeedEvent, Template } from "../api/types";
import { failureRate, usePoolHistory } from "../live/pool-history";
import { usePools } from "../live/pools";
import { useResource } from "../live/resource";
import { useMay } from "../parts/act";
import { Empty, Shown } from "../parts/states";
import { Ago, Badge, TemplateLink } from "../parts/words";
import { took } from "../words/time";

const Sparkline = lazy(async () => ({ default: (await import("../parts/timeline")).Sparkline }));

const ofTemplates = (event: FeedEvent) => event.entity === "template" || event.entity === "installation";

/** Rounded up to the next percent: one of a thousand is not none. */
const percent = (rate: number | null) => (rate === null ? "–" : `${Math.ceil(100 * rate)} %`);

export function Templates() {
  const read = useResource<{ items: Template[] }>("/templates", { on: ofTemplates });
  const pools = usePools();
  const operator = useMay("operator");
  const history = usePoolHistory().data;
  const dayOf = new Map((history?.items ?? []).map((each) => [each.template, each]));
  const span = history && {
    since: Date.parse(history.since),
    until: Date.parse(history.until),
    step: 1000 * history.step_seconds,
  };
  return (
    <>
      <header className="page-head">
        <h1>Templates</h1>
      </header>
      <Shown read={read} rows={5}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No templates yet">
              {operator && (
                <p>
                  Describe one in <code>muster.toml</code>, then run <code>muster apply</code>.
                </p>
              )}
            </Empty>
          ) : (
            <div className="rows card">
              <table className="plain-table">
                <thead>
                  <tr>
                    <th>Template</th>
                    <th className="wide">Provider</th>
                    <th className="wide">Runtime</th>
                    <th>Warm</th>
                    <th>In use</th>
                    <th className="wide">Use, day</th>
                    <th className="wide">Boot p50</th>
                    <th className="wide">Failed boots</th>
                    <th className="wide">Applied</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((each) => {
                    const pool = pools.get(each.name);
                    const day = dayOf.get(each.name);
                    return (
                      <tr key={each.name} data-testid="template-row">
                        <td className="cell-name">
                          <TemplateLink name={each.name} revision={each.revision} />{" "}
                          {each.retired && <Badge tone="pending">retired</Badge>}
                          {each.paused && <Badge tone="warning">paused</Badge>}
                        </td>
                        <td className="wide">{each.provider}</td>
                        <td className="wide">{each.cluster ? "clusters" : each.runtime}</td>
                        <td className="figures">
                          {pool ? pool.idle : "–"}{" "}
                          {each.min_idle > 0 && <span className="faint">keeps {each.min_idle}</span>}
                        </td>
                        <td className="figures">
                          {pool ? (
                            <>
                              {Math.max(0, pool.used - pool.idle)} <span className="faint">of {each.max_nodes}</span>
                            </>
                          ) : (
                            "–"
                          )}
                        </td>
                        <td className="wide">
                          {day && span && (
                            <Suspense fallback={null}>
                              <Sparkline item={day} span={span} />
                            </Suspense>
                          )}
                        </td>
                        <td className="wide figures">
                          {typeof day?.boot_p50 === "number" ? took(day.boot_p50) : <span className="faint">–</span>}
                        </td>
                        <td
                          className={`wide figures ${day?.failed ? "tone-danger cell-toned" : "faint"}`}
                          title={day ? `${day.failed} failed, ${day.boots} booted in the last 24 hours` : ""}
                        >
                          {day ? percent(failureRate(day)) : "–"}
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
