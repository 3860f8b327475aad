/** Nodes that are kept for a look: who keeps each, for how long, what it costs of the cap; more time, or an end now. */

import type { HeldNode, HeldNodes } from "../api/types";
import { ExtendButton, HoldButton } from "../parts/extend";
import { Card } from "../parts/facts";
import { ReleaseButton } from "../parts/release";
import { TerminateButton } from "../parts/terminate";
import { By, Countdown, Elapsed, Name, NodeLink, StateBadge, TemplateLink } from "../parts/words";
import { Link, to } from "../routing/router";
import { plain } from "../words/names";

/** Most of the time there is none: then the overview has no such block. */
export function HeldCard({ held }: { held: HeldNodes }) {
  if (held.count === 0) return null;
  return (
    <Card title="Kept for a look" id="held" side={<span className="figures">{held.count}</span>}>
      <ul className="lines">
        {held.items.map((node) => (
          <HeldLine key={node.node_id} node={node} />
        ))}
      </ul>
      {held.count > held.items.length && <p className="more">These are the {held.items.length} that end first.</p>}
    </Card>
  );
}

function HeldLine({ node }: { node: HeldNode }) {
  const { node_id: id, operation_id: operation } = node;
  const running = node.state === "running";
  return (
    <li data-testid="held-node">
      <div className="line-words">
        <span className="line-links">
          <NodeLink id={id} />
          <StateBadge state={node.state} />
          {node.reason && <span>{plain(node.reason)}</span>}
        </span>
        <span className="faint">
          {"of "}
          <TemplateLink name={node.template} />
          {node.run && operation && (
            <>
              {", run "}
              <Link className="name" href={to("operations", operation)}>
                <Name>{node.run}</Name>
              </Link>
            </>
          )}
        </span>
        <span className="faint">
          kept {node.by && <By who={node.by} />} for <Elapsed since={node.since} /> · takes 1 of its cap of{" "}
          {node.max_nodes} ({node.used} used)
        </span>
        <span className="line-acts">
          {running ? operation && <ExtendButton operationId={operation} of={id} /> : <HoldButton nodeId={id} of={id} />}
          {running && operation ? (
            <ReleaseButton operationId={operation} of={id} />
          ) : (
            <TerminateButton nodeId={id} of={id} text="What it could still show is lost." />
          )}
        </span>
      </div>
      <span className="line-side">
        {node.deadline_at && <Countdown until={node.deadline_at} after=" left" over="time passed" />}
      </span>
    </li>
  );
}
