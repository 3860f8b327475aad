/** The event feed, live. The newest are on top; it can be paused while one reads. */

import { useMemo, useState } from "react";
import { ENTITIES, type FeedEvent } from "../api/types";
import { useConnection, useRecent } from "../live/history";
import { routine, Subject, titled, Told, told, toneOfEvent } from "../parts/events";
import { Filter, Search, Switch } from "../parts/filters";
import { Icon } from "../parts/icons";
import { Empty, Loading } from "../parts/states";
import { SavedFilters } from "../parts/saved";
import { Cell, useNarrow, VirtualTable } from "../parts/virtual";
import { At } from "../parts/words";
import { useAddress } from "../routing/router";
import { counted } from "../words/names";

const ROW = 34;
const ROW_NARROW = 58;

export function matches(event: FeedEvent, query: URLSearchParams): boolean {
  const entity = query.get("entity");
  if (routine(event) && !query.has("renewals")) return false;
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  if (entity && event.entity !== entity) return false;
  if (words.length === 0) return true;
  const text = `${event.entity_id} ${event.name} ${titled(event)} ${told(event)} ${event.actor ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export function Events() {
  const { query } = useAddress();
  const recent = useRecent();
  const connection = useConnection();
  const narrow = useNarrow();
  const [held, setHeld] = useState<readonly FeedEvent[] | null>(null);
  const asked = query.toString();
  const source = held ?? recent;
  const rows = useMemo(() => {
    const filters = new URLSearchParams(asked);
    return source.filter((event) => matches(event, filters)).reverse();
  }, [source, asked]);
  const newer = held === null ? 0 : recent.length - recent.indexOf(held.at(-1) as FeedEvent) - 1;
  return (
    <div className="events">
      <header className="page-head">
        <h1>
          Events <span className="faint figures">{rows.length.toLocaleString("en")}</span>
        </h1>
        <div className="filters" role="search">
          <Filter name="entity" label="About" options={ENTITIES} />
          <Search name="q" label="Search events" placeholder="id, name, words" />
          <SavedFilters />
          <Switch name="renewals" label="Renewals" title="Renewals of nodes that are kept warm" />
          <button
            type="button"
            className="button"
            aria-pressed={held !== null}
            onClick={() => setHeld(held === null ? recent : null)}
          >
            <Icon name={held === null ? "pause" : "play"} />
            {held === null ? "Pause" : `Resume${newer > 0 ? ` (${newer} new)` : ""}`}
          </button>
        </div>
      </header>
      {rows.length === 0 ? (
        connection.kind === "connecting" ? (
          <Loading rows={8} />
        ) : (
          <Empty title={asked ? "No event fits these filters" : "No events yet"}>
            <p>
              This page searches the newest {counted(source.length, "event")}. For older ones:{" "}
              <code>muster events --last 10000</code>.
            </p>
          </Empty>
        )
      ) : (
        <VirtualTable
          rows={rows}
          height={narrow ? ROW_NARROW : ROW}
          label="Events"
          columns={4}
          className="card events-table"
          rowTestId="event-row"
          keyOf={(event) => event.id}
          head={["When", "About", "Event", "What"].map((name) => (
            <div key={name} role="columnheader" className="cell" style={{ gridArea: name.toLowerCase() }}>
              {name}
            </div>
          ))}
        >
          {(event) => (
            <>
              <Cell name="when">
                <At at={event.at} />
              </Cell>
              <Cell name="about">
                <Subject event={event} />
              </Cell>
              <Cell name="event" tone={toneOfEvent(event)}>
                <span className="event-name">{titled(event)}</span>
              </Cell>
              <Cell name="what">
                <Told event={event} />
              </Cell>
            </>
          )}
        </VirtualTable>
      )}
    </div>
  );
}
