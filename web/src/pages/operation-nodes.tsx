/** The nodes of an operation as they are now, and what can be done with those that were handed over. */

import { useRef } from "react";
import type { FeedEvent, Node, Operation, Page } from "../api/types";
import { type Read, useResource } from "../live/resource";
import { ExtendButton } from "../parts/extend";
import { Card } from "../parts/facts";
import { ReleaseButton } from "../parts/release";
import { NodeHealth, NodeLink, StateBadge } from "../parts/words";
import { Link } from "../routing/router";
import { plain } from "../words/names";

const ROWS_MOST = 60;

/** One request for all of them; asked again when one of them, or the operation, moves. */
export function useNodesOf(operation: Operation | undefined, id: string): Read<Page<Node>> {
  const known = useRef(new Set<string>());
  const ofThese = (event: FeedEvent) => event.entity_id === id || known.current.has(event.entity_id);
  const read = useResource<Page<Node>>(operation ? `/operations/${encodeURIComponent(id)}/nodes` : null, {
    on: ofThese,
    gap: 500,
  });
  const told = [
    ...(read.data?.items ?? []).map((node) => node.id),
    ...(operation?.members ?? []).map((member) => member.node_id),
    ...(operation?.parts ?? []).map((part) => part.id),
  ];
  for (const each of told) known.current.add(each);
  return read;
}

/** What can be done with nodes that were handed over, while its run still has one of them. */
export function Afterwards({ operation, nodes }: { operation: Operation; nodes: readonly Node[] }) {
  const id = operation.operation_id;
  const assigned = new Set((operation.members ?? []).map((member) => member.assignment_id));
  const handedOver = operation.kind === "provision" && operation.status === "succeeded";
  const has = nodes.some((node) => node.state === "running" && assigned.has(node.assignment_id ?? ""));
  if (!handedOver || !has) return null;
  return (
    <>
      <ExtendButton operationId={id} />
      <ReleaseButton operationId={id} />
    </>
  );
}

export function Members({ operation, nodes }: { operation: Operation; nodes: readonly Node[] }) {
  const count = Math.max(nodes.length, operation.members?.length ?? 0);
  if (nodes.length === 0) return null;
  return (
    <Card title="Nodes" side={<span className="figures">{count}</span>} id="members">
      <table className="plain-table">
        <thead>
          <tr>
            <th>Node</th>
            <th>State now</th>
            <th>Health</th>
            <th className="wide">Boot</th>
          </tr>
        </thead>
        <tbody>
          {nodes.slice(0, ROWS_MOST).map((node) => (
            <tr key={node.id}>
              <td>
                <NodeLink id={node.id} />
              </td>
              <td>
                <StateBadge state={node.state} />
              </td>
              <td>
                <NodeHealth node={node} />
              </td>
              <td className="wide cell-words">
                <bdi>{[plain(node.phase ?? ""), node.step].filter(Boolean).join(" · ")}</bdi>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {count > ROWS_MOST && (
        <p className="more">
          These are {ROWS_MOST} of {count};{" "}
          {operation.run && (
            <Link href={`/nodes?run=${encodeURIComponent(operation.run)}`}>all nodes that the run has now</Link>
          )}
        </p>
      )}
    </Card>
  );
}
