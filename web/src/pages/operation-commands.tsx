/** What a run executed on its nodes, and how each ended. */

import type { FeedEvent, Operation, Page, Tone } from "../api/types";
import { useResource } from "../live/resource";
import { Card } from "../parts/facts";
import { Shown } from "../parts/states";
import { Badge, Elapsed, NodeLink } from "../parts/words";
import { plain } from "../words/names";

interface Command {
  id: string;
  node_id: string;
  ordinal: number;
  argv: string[];
  state: string;
  started_at?: string | null;
  ended_at?: string | null;
  exit_status?: number | null;
  detail?: string;
}

const MOST = 100;
const ofCommands = (event: FeedEvent) => event.entity === "command";

function tone(command: Command): Tone {
  if (!command.ended_at) return command.started_at ? "active" : "pending";
  return command.exit_status === 0 ? "success" : "danger";
}

/** A run's commands belong to the provision inside of it, and are found by the run; a provision's by itself. */
export function Commands({ operation }: { operation: Operation }) {
  const whole = operation.kind === "run";
  const { operation_id: id, run } = operation;
  const read = useResource<Page<Command>>("/commands", {
    query: whole ? { run, limit: MOST } : { operation_id: id, limit: MOST },
    on: ofCommands,
    gap: 1000,
  });
  // A run that was called the same before is another one; its commands are called after their operation.
  const own = (command: Command) => !whole || command.id.startsWith(`${id}.`);
  if (!whole && !read.data?.items.length) return null;
  return (
    <Card title="Commands" id="commands">
      <Shown read={read}>
        {({ items }) =>
          items.filter(own).length === 0 ? (
            <p className="calm">None yet: they begin once all nodes are handed over.</p>
          ) : (
            <table className="plain-table">
              <thead>
                <tr>
                  <th>Ended</th>
                  <th>Node</th>
                  <th>Took</th>
                  <th className="wide">Command</th>
                </tr>
              </thead>
              <tbody>
                {items
                  .filter(own)
                  .sort((a, b) => a.ordinal - b.ordinal)
                  .map((each) => (
                    <tr key={each.id}>
                      <td>
                        <Badge tone={tone(each)} {...(each.detail ? { title: each.detail } : {})}>
                          {typeof each.exit_status === "number" ? `exit ${each.exit_status}` : plain(each.state)}
                        </Badge>
                      </td>
                      <td>
                        {each.ordinal} <NodeLink id={each.node_id} />
                      </td>
                      <td>{each.started_at && <Elapsed since={each.started_at} until={each.ended_at} />}</td>
                      <td className="wide cell-words mono">
                        <bdi>{each.argv.join(" ")}</bdi>
                      </td>
                    </tr>
                  ))}
              </tbody>
            </table>
          )
        }
      </Shown>
      <p className="faint">
        Their output: <code>muster logs {run ?? id}</code>
      </p>
    </Card>
  );
}
