/** A chip per node or node pool: a colour, a sign and words. */

import type { Part } from "../api/types";
import { Link, to } from "../routing/router";
import { plain, short } from "../words/names";
import { exact } from "../words/time";
import { ToneSign } from "./icons";

const FULL_NAMES = 6;

export function Chip({ part, full }: { part: Part; full: boolean }) {
  const tone = part.tone ?? "pending";
  const count = part.count ?? 1;
  const grouped = part.name === part.state;
  const isNode = part.id.startsWith("node-");
  const words = [grouped ? "" : full ? part.name : short(part.name), plain(part.state), part.detail ?? ""];
  const said = [count > 1 || grouped ? `${count} ×` : "", ...words].filter(Boolean);
  const inside = (
    <>
      <ToneSign tone={tone} />
      {said.map((word, index) => (
        <bdi
          key={index}
          className={word === part.state ? "chip-state" : index === said.length - 1 ? "chip-detail" : ""}
        >
          {word}
        </bdi>
      ))}
    </>
  );
  const shown = {
    className: `chip tone-${tone}`,
    title: `${part.name} · ${plain(part.state)}${part.detail ? ` · ${part.detail}` : ""}${part.since ? ` · since ${exact(part.since)}` : ""}`,
    "data-testid": "chip",
    "data-state": part.state,
    "data-tone": tone,
  };
  return isNode ? (
    <Link href={to("nodes", part.id)} {...shown}>
      {inside}
    </Link>
  ) : (
    <span {...shown}>{inside}</span>
  );
}

export function Chips({ parts }: { parts: readonly Part[] | undefined }) {
  if (!parts || parts.length === 0) return null;
  return (
    <ul className="chips" aria-label="Parts">
      {parts.map((part) => (
        <li key={part.id}>
          <Chip part={part} full={parts.length <= FULL_NAMES} />
        </li>
      ))}
    </ul>
  );
}
