/** The events of one thing: read, then carried on by the stream. */

import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { FeedEvent, Page } from "../api/types";
import { feed, type Connection } from "./feed";
import { type Read, useResource } from "./resource";

const LAST = 500;
const RECENT_EVERY = 200;

export function useHistory(entityId: string): Read<readonly FeedEvent[]> {
  const read = useResource<Page<FeedEvent>>("/events", { query: { entity_id: entityId, last: LAST } });
  const [since, setSince] = useState<{ of: string; events: FeedEvent[] }>({ of: entityId, events: [] });
  useEffect(() => {
    const own = (events: readonly FeedEvent[]) => events.filter((event) => event.entity_id === entityId);
    const begin = () => setSince({ of: entityId, events: own(feed.recent).slice(-LAST) });
    begin();
    const ends = [
      feed.resynchronise(begin),
      feed.subscribe((batch) => {
        const newer = own(batch);
        if (newer.length > 0) setSince((had) => ({ of: entityId, events: [...had.events, ...newer].slice(-LAST) }));
      }),
    ];
    return () => {
      for (const end of ends) end();
    };
  }, [entityId]);

  const items = read.data?.items;
  const data = useMemo(
    () => items && merged(items, since.of === entityId ? since.events : []),
    [items, since, entityId],
  );
  return { ...read, data };
}

/** Both, each event once, in the order in which they happened. */
function merged(read: readonly FeedEvent[], streamed: readonly FeedEvent[]): readonly FeedEvent[] {
  const all = [...new Map([...read, ...streamed].map((event) => [event.id, event])).values()];
  all.sort((a, b) => Date.parse(a.at) - Date.parse(b.at) || a.version - b.version);
  return all.slice(-LAST);
}

export function useConnection(): Connection {
  return useSyncExternalStore(feed.watch, feed.connection);
}

/** The newest events, a few times a second at most: no person reads sixty lists a second. */
export function useRecent(): readonly FeedEvent[] {
  const [recent, setRecent] = useState(feed.recent);
  useEffect(() => {
    let timer = 0;
    const soon = () => {
      if (timer !== 0 || feed.recent === shown) return;
      timer = window.setTimeout(take, RECENT_EVERY);
    };
    let shown: readonly FeedEvent[] = [];
    const take = () => {
      timer = 0;
      shown = feed.recent;
      setRecent(shown);
    };
    take();
    const end = feed.watch(soon);
    return () => {
      clearTimeout(timer);
      end();
    };
  }, []);
  return recent;
}
