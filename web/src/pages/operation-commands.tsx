/** What a run executed on its nodes, what each wrote, as it comes, and how each ended. */

import { useState } from "react";
import type { Command, FeedEvent, Operation, Page, Tone } from "../api/types";
import { useResource } from "../live/resource";
import { Card } from "../parts/facts";
import { CommandOutput } from "../parts/output";
import { Shown } from "../parts/states";
import { Badge, Lasted, NodeLink } from "../parts/words";
import { commandLine } from "../words/command-line";
import { plain } from "../words/names";

const MOST = 500;
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
            <Listed commands={items.filter(own).sort((a, b) => a.ordinal - b.ordinal)} again={run ?? id} />
          )
        }
      </Shown>
    </Card>
  );
}

/** The first that went wrong, else the first. */
function first(commands: readonly Command[]): string {
  const wrong = commands.find((each) => each.ended_at && each.exit_status !== 0);
  return (wrong ?? commands[0])?.id ?? "";
}

function Listed({ commands, again }: { commands: readonly Command[]; again: string }) {
  // Chosen once: what one reads isn't replaced when another command fails.
  const [chosen, choose] = useState(() => first(commands));
  const shown = commands.find((each) => each.id === chosen) ?? commands[0];
  return (
    <>
      <div className="commands-scroll">
        <table className="plain-table">
          <thead>
            <tr>
              <th>Status</th>
              <th>Node</th>
              <th className="wide">Took</th>
              <th>Output</th>
              <th className="wide">Command</th>
            </tr>
          </thead>
          <tbody>
            {commands.map((each) => (
              <tr key={each.id} data-testid="command" data-ordinal={each.ordinal}>
                <td>
                  <Badge tone={tone(each)} {...(each.detail ? { title: each.detail } : {})}>
                    {typeof each.exit_status === "number" ? `exit ${each.exit_status}` : plain(each.state)}
                  </Badge>
                </td>
                <td>
                  {each.ordinal} <NodeLink id={each.node_id} />
                </td>
                <td className="wide">{each.started_at && <Lasted since={each.started_at} until={each.ended_at} />}</td>
                <td>
                  <button
                    type="button"
                    className="button button-small"
                    aria-pressed={each.id === shown?.id}
                    aria-label={`Output of node ${each.ordinal}`}
                    onClick={() => choose(each.id)}
                  >
                    {each.id === shown?.id ? "shown" : "show"}
                  </button>
                </td>
                <td className="wide cell-words mono">
                  <bdi title={commandLine(each.argv)}>{commandLine(each.argv)}</bdi>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown && <CommandOutput key={shown.id} command={shown} again={again} />}
    </>
  );
}
