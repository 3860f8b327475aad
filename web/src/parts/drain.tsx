/** Takes a node out of use, gently: its run keeps it, and no other run gets it after that. */

import { post } from "../api/client";
import { Act } from "./act";

export function DrainButton({ nodeId, named = false }: { nodeId: string; named?: boolean }) {
  const words = {
    title: "Drain this node?",
    text: "No other run gets it. Muster ends it once it is free.",
    yes: "Drain",
  };
  return (
    <Act needs="operator" act={() => post(`/nodes/${encodeURIComponent(nodeId)}/drain`)} confirm={words}>
      Drain{named && <span className="unseen"> {nodeId}</span>}
    </Act>
  );
}
