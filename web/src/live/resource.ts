/**
 * What a page shows, read from the API: at once, and again when an event says that it changed.
 *
 * Events only mark a resource as stale; it is read again at most every `gap`, and not more often than a quarter of the
 * time goes into reading it. Only what changes without any event is read by the clock (`every`). What was read last is
 * shown at once when one comes back to it.
 */

import { useEffect, useState } from "react";
import { get, passing, type Query, Unreachable } from "../api/client";
import type { FeedEvent } from "../api/types";
import { feed } from "./feed";
import { pauseAfter } from "./pausing";

const GAP = 400;
const CACHED_MOST = 60;
const cache = new Map<string, unknown>();

export interface Options {
  query?: Query;
  /** Which events make it stale; none: it is read again only when the feed resynchronises. */
  on?: (event: FeedEvent) => boolean;
  gap?: number;
  /** Also so often, in ms: for what changes without an event. */
  every?: number;
}

export interface Read<T> {
  data: T | undefined;
  error: Error | undefined;
  refresh: () => void;
}

/** A path of null reads nothing. */
export function useResource<T>(path: string | null, options: Options = {}): Read<T> {
  const key = path === null ? "" : path + JSON.stringify(options.query ?? {});
  const [state, setState] = useState<{ key: string; data?: T; error?: Error }>({ key });
  const [reader, setReader] = useState<Reader<T> | null>(null);

  useEffect(() => {
    if (path === null) return undefined;
    const made = new Reader<T>(key, path, options, (data, error) =>
      setState({ key, ...(data !== undefined && { data }), ...(error && { error }) }),
    );
    setReader(made);
    return made.start();
    // The options of one key don't change while it is shown: their functions are pure.
  }, [key, options.every]);

  const shown = state.key === key ? state : { key };
  const data = shown.data ?? (cache.get(key) as T | undefined);
  return { data, error: shown.error, refresh: () => reader?.stale() };
}

export function forgetAll(): void {
  cache.clear();
}

type Shown<T> = (data: T | undefined, error: Error | undefined) => void;

class Reader<T> {
  private running = false;
  private again = false;
  private timer = 0;
  private notBefore = 0;
  private failed: Error | undefined;
  private tries = 0;
  private retrying = 0;
  private readonly stopping = new AbortController();

  constructor(
    private readonly key: string,
    private readonly path: string,
    private readonly options: Options,
    private readonly shown: Shown<T>,
  ) {}

  start(): () => void {
    const { on, every } = this.options;
    let connected = feed.connection().kind;
    const ends = [
      feed.subscribe((events) => {
        if (on !== undefined && events.some(on)) this.stale();
      }),
      feed.resynchronise(() => this.stale()),
      feed.watch(() => {
        const back = feed.connection().kind === "live" && connected !== "live";
        connected = feed.connection().kind;
        // Back after a break: what failed meanwhile is asked for again.
        if (back && passing(this.failed)) this.stale();
      }),
    ];
    const clock = every === undefined ? 0 : window.setInterval(() => this.stale(), every);
    void this.read();
    return () => {
      this.stopping.abort();
      clearTimeout(this.timer);
      clearTimeout(this.retrying);
      clearInterval(clock);
      for (const end of ends) end();
    };
  }

  stale(): void {
    if (this.running) {
      this.again = true;
      return;
    }
    if (this.timer !== 0) return;
    const wait = Math.max(0, this.notBefore - Date.now());
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      void this.read();
    }, wait);
  }

  private async read(): Promise<void> {
    this.running = true;
    this.again = false;
    clearTimeout(this.retrying);
    const begun = Date.now();
    try {
      const data = await get<T>(this.path, this.options.query, this.stopping.signal);
      remember(this.key, data);
      this.tell(data, undefined);
    } catch (error) {
      if (this.stopping.signal.aborted) return;
      if (error instanceof Unreachable && error.atOnce) feed.doubt();
      this.tell(cache.get(this.key) as T | undefined, error as Error);
    }
    this.running = false;
    const took = Date.now() - begun;
    this.notBefore = Date.now() + Math.max(this.options.gap ?? GAP, 3 * took);
    if (this.again) this.stale();
  }

  private tell(data: T | undefined, error: Error | undefined): void {
    if (this.stopping.signal.aborted) return;
    this.failed = error;
    this.tries = error ? this.tries + 1 : 0;
    if (passing(error)) this.retrying = window.setTimeout(() => this.stale(), pauseAfter(this.tries));
    this.shown(data, error);
  }
}

function remember(key: string, data: unknown): void {
  cache.delete(key);
  cache.set(key, data);
  const oldest = cache.keys().next();
  if (cache.size > CACHED_MOST && !oldest.done) cache.delete(oldest.value);
}
