/** Ends a node, whatever it does. */

import type { ReactNode } from "react";
import { post } from "../api/client";
import { Act } from "./act";

/** `of` tells several such buttons on a page apart. */
export function TerminateButton({ nodeId, text, of }: { nodeId: string; text: ReactNode; of?: string }) {
  return (
    <Act
      needs="operator"
      kind="danger"
      act={() => post(`/nodes/${encodeURIComponent(nodeId)}/terminate`)}
      confirm={{ title: "Terminate this node?", text: <p>{text} This can't be undone.</p>, yes: "Terminate" }}
    >
      Terminate{of && <span className="unseen"> {of}</span>}
    </Act>
  );
}
