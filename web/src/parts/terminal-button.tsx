/** Opens a terminal on a node, for people who may. What draws it is loaded then. */

import { lazy, Suspense, useState } from "react";
import type { Node } from "../api/types";
import { useMay } from "./act";

const NodeTerminal = lazy(() => import("./terminal"));

/** Whether a node takes shells: it serves a run, or failed and is kept for a look. */
export function takesShells(node: Node): boolean {
  if (node.provider === "external" || !node.assignment_id) return false;
  return node.state === "running" || (node.state === "failed" && node.deadline_source === "hold");
}

export function TerminalButton({ node }: { node: Node }) {
  const allowed = useMay("operator");
  const [open, setOpen] = useState(false);
  if (!open && !(allowed && takesShells(node))) return null;
  return (
    <>
      <button type="button" className="button" disabled={open} onClick={() => setOpen(true)}>
        Terminal
      </button>
      {open && (
        <Suspense fallback={null}>
          <NodeTerminal nodeId={node.id} close={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
