/** Gives the nodes of a provision back: its run loses them at once. */

import { useMemo } from "react";
import { poster } from "../api/client";
import { Act } from "./act";

/** `of` tells several such buttons on a page apart. */
export function ReleaseButton({ operationId, of }: { operationId: string; of?: string }) {
  const release = useMemo(() => poster("/releases", { operation_id: operationId }), [operationId]);
  const words = {
    title: "Release these nodes?",
    text: "The run loses them at once. Muster wipes them and puts them back into the pool, or terminates them.",
    yes: "Release",
  };
  return (
    <Act needs="operator" act={release} confirm={words}>
      Release{of && <span className="unseen"> {of}</span>}
    </Act>
  );
}
