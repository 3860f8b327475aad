/** Keeps a failed node for a look, for people who may. It ends when the time is over. */

import { post } from "../api/client";
import type { Node } from "../api/types";
import { Act } from "./act";

const SECONDS = 1800;

export function HoldButton({ node }: { node: Node }) {
  if (node.state !== "failed") return null;
  return (
    <Act needs="operator" act={() => post(`/nodes/${encodeURIComponent(node.id)}/hold`, { seconds: SECONDS })}>
      Keep for 30 min
    </Act>
  );
}
