/** The events of one thing: read once, then carried on by the stream. */

import { useEffect, useState, useSyncExternalStore } from "react";
import type { FeedEvent, Page } from "../api/types";
import { feed, type Connection } from "./feed";
import { type Read, useResource } from "./resource";

const LAST = 500;
const RECENT_EVERY = 200;

export function useHistory(entityId: string): Read<readonly FeedEvent[]> {
  const read = useResource<Page<FeedEvent>>("/events", { query: { entity_id: entityId, last: LAST } });
  const [since, setSince] = useState<{ of: string; events: FeedEvent[] }>({ of: entityId, events: [] });
  useEffect(() => {
    setSince({ of: entityId, events: feed.recent.filter((event) => event.entity_id === entityId) });
    return feed.subscribe((batch) => {
      const own = batch.filter((event) => event.entity_id === entityId);
      if (own.length > 0) setSince((had) => ({ of: entityId, events: [...had.events, ...own] }));
    });
  }, [entityId]);

  if (read.data === undefined) return { ...read, data: undefined };
  const known = new Set(read.data.items.map((event) => event.id));
  const newer = since.of === entityId ? since.events.filter((event) => !known.has(event.id)) : [];
  return { ...read, data: newer.length === 0 ? read.data.items : [...read.data.items, ...newer] };
}

export function useConnection(): Connection {
  return useSyncExternalStore(feed.watch, feed.connection);
}

/** The newest events, a few times a second at most: nobody reads sixty lists a second. */
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
