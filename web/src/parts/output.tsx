/** What a command wrote, as it comes. Stays at its end while one looks at the end. */

import { useLayoutEffect, useRef } from "react";
import { useOutput } from "../live/output";
import { counted } from "../words/names";

const CAP = 16 * 1024 * 1024; // bytes that the server keeps of a command
const NEAR = 24; // pixels

interface Shown {
  id: string;
  ordinal: number;
  ended_at?: string | null;
  exit_status?: number | null;
  detail?: string;
  truncated?: boolean;
  kept?: number | null;
}

/** `again`: what `muster logs` finds all of it by. */
export function CommandOutput({ command, again }: { command: Shown; again: string }) {
  const output = useOutput(command.id);
  const box = useRef<HTMLPreElement>(null);
  const following = useRef(true);
  useLayoutEffect(() => {
    if (box.current && following.current) box.current.scrollTop = box.current.scrollHeight;
  }, [output.text]);
  const look = () => {
    const at = box.current;
    if (at) following.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR;
  };
  const status = command.exit_status;
  return (
    <figure className="output" data-testid="output" data-command={command.id} data-whole={output.whole}>
      <figcaption className="faint">Output of node {command.ordinal}</figcaption>
      {output.dropped > 0 && (
        <p className="output-mark" data-testid="output-dropped">
          The first {counted(output.dropped, "character")} are left out here. All of it:{" "}
          <code>muster logs {again}</code>
        </p>
      )}
      <pre ref={box} onScroll={look} tabIndex={0} role="log" aria-label={`Output of node ${command.ordinal}`} dir="ltr">
        {output.text || <span className="faint">{output.whole ? "It wrote nothing." : "Nothing yet."}</span>}
      </pre>
      {command.truncated && (
        <p className="output-mark tone-warning" data-testid="output-truncated">
          … cut here: {cut(command.kept)}
        </p>
      )}
      {output.error && (
        <p className="output-mark tone-danger" role="alert">
          <bdi>{output.error.message}</bdi>
        </p>
      )}
      {output.whole && command.ended_at && (
        <p className="output-mark" data-testid="output-end">
          {typeof status === "number" ? `exit ${status}` : "it did not end by itself"}
          {command.detail && (
            <>
              {" · "}
              <bdi>{command.detail}</bdi>
            </>
          )}
        </p>
      )}
    </figure>
  );
}

function cut(kept: number | null | undefined): string {
  if (typeof kept !== "number") return "more was written than is kept";
  if (kept < CAP) return "the server's disk was full";
  return `${Math.round(kept / 2 ** 20)} MiB of output are kept per command`;
}
