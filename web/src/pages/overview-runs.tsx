/** Who has nodes right now and until when, with the brakes at hand: more time for a run, no further use of a node. */

import { useState } from "react";
import type { Held, Run, Runs } from "../api/types";
import { DrainButton } from "../parts/drain";
import { ExtendButton } from "../parts/extend";
import { Card } from "../parts/facts";
import { Badge, Countdown, Elapsed, HealthBadge, Name, NodeLink, TemplateLink } from "../parts/words";
import { Link, to } from "../routing/router";
import { counted, short } from "../words/names";

const FIRST = 6;

export function RunsCard({ runs }: { runs: Runs }) {
  const [all, setAll] = useState(false);
  const shown = all ? runs.items : runs.items.slice(0, FIRST);
  const hidden = runs.items.length - shown.length;
  const side = (
    <span className="figures">
      {runs.count}
      {runs.more && "+"}
    </span>
  );
  return (
    <Card title="Runs with nodes" id="runs" side={side}>
      {runs.items.length === 0 ? (
        <p className="calm">No run has nodes right now.</p>
      ) : (
        <ul className="lines">
          {shown.map((run) => (
            <RunLine key={run.operation_id ?? `apps of ${run.template}`} run={run} />
          ))}
        </ul>
      )}
      {hidden > 0 && (
        <button type="button" className="button button-quiet" onClick={() => setAll(true)}>
          Show {hidden} more
        </button>
      )}
      {(runs.count > runs.items.length || runs.more) && hidden === 0 && (
        <p className="more">
          These are the first {runs.items.length}; <Link href="/nodes?state=running">all running nodes</Link>
        </p>
      )}
    </Card>
  );
}

function RunLine({ run }: { run: Run }) {
  const id = run.operation_id;
  return (
    <li data-testid="run" data-run={run.run ?? ""}>
      <div className="line-words">
        <span>
          {id ? (
            <Link className="name" href={to("operations", id)}>
              <Name>{run.run ?? id}</Name>
            </Link>
          ) : (
            <strong>Apps</strong>
          )}
          <span className="faint">
            {" of "}
            <TemplateLink name={run.template} />
          </span>
        </span>
        <details className="run-nodes" open={run.unwell > 0}>
          <summary>
            {run.count === 1 && run.nodes[0] ? (
              <bdi className="mono">{short(run.nodes[0].node_id)}</bdi>
            ) : (
              counted(run.count, "node")
            )}
            {run.unwell > 0 && (
              <>
                {" "}
                <Badge tone="warning">{run.unwell} unwell</Badge>
              </>
            )}
          </summary>
          <ul>
            {run.nodes.map((node) => (
              <HeldLine key={node.node_id} node={node} />
            ))}
          </ul>
          {run.count > run.nodes.length && (
            <p className="faint">
              and {run.count - run.nodes.length} more;{" "}
              <Link href={`/nodes?${new URLSearchParams(run.run ? { run: run.run } : { template: run.template })}`}>
                all of them
              </Link>
            </p>
          )}
        </details>
      </div>
      <span className="line-side">
        {run.deadline_at ? (
          <Countdown until={run.deadline_at} after=" left" over="deadline passed" />
        ) : (
          <>
            for <Elapsed since={run.since} />
          </>
        )}
      </span>
      {id && <ExtendButton operationId={id} of={run.run ?? id} />}
    </li>
  );
}

function HeldLine({ node }: { node: Held }) {
  return (
    <li>
      <NodeLink id={node.node_id} />
      <HealthBadge health={node.health} reason={node.health_reason} />
      {node.health_reason && node.health !== "ready" && (
        <span className="faint run-why">
          <bdi>{node.health_reason}</bdi>
        </span>
      )}
      {node.drain ? <Badge tone="warning">drain</Badge> : <DrainButton nodeId={node.node_id} named />}
    </li>
  );
}
