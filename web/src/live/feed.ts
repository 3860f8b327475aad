/**
 * The page's one event stream.
 *
 * Owns the connection: it is looked for again after a break, with growing pauses and chance so that many pages don't
 * come back at once, and goes on where it stopped. Events are handed on in batches, one per frame at most, each once.
 */

import { get, Refused, send } from "../api/client";
import type { FeedEvent, Page } from "../api/types";
import { Reading } from "./sse";

const SILENCE_MOST = 45_000; // the server says something every 15 seconds
const PAUSE_FIRST = 500;
const PAUSE_MOST = 15_000;
const RECENT_MOST = 3000;
const FIRST = 300;
const BATCH_MOST = 1000;
const BREATH = 250; // after so many at once, the page may draw
const HIDDEN_EVERY = 500; // a page that nobody sees gets no frames

export type Connection =
  { kind: "connecting" } | { kind: "live" } | { kind: "lost"; since: number; retryAt: number; tries: number };

type Batch = (events: readonly FeedEvent[]) => void;

export class Feed {
  private state: Connection = { kind: "connecting" };
  private readonly watchers = new Set<() => void>();
  private readonly batches = new Set<Batch>();
  private pending: FeedEvent[] = [];
  private scheduled = false;
  private stopping: AbortController | null = null;
  private seen = new Set<string>();
  /** The newest events, oldest first. A new array for every batch. */
  recent: readonly FeedEvent[] = [];

  readonly connection = (): Connection => this.state;

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly subscribe = (batch: Batch): (() => void) => {
    this.batches.add(batch);
    return () => this.batches.delete(batch);
  };

  start(): void {
    this.stop();
    this.stopping = new AbortController();
    void this.run(this.stopping.signal);
  }

  stop(): void {
    this.stopping?.abort();
    this.stopping = null;
    this.recent = [];
    this.pending = [];
    this.seen = new Set();
    this.set({ kind: "connecting" });
  }

  /** Don't wait for the rest of the pause. */
  readonly retry = (): void => this.wake();

  private wake: () => void = () => undefined;

  private async run(signal: AbortSignal): Promise<void> {
    let reading: Reading | null = null;
    let tries = 0;
    let since = 0;
    while (!signal.aborted) {
      try {
        reading ??= new Reading(await this.begin(signal));
        await this.read(reading, signal, () => {
          tries = 0;
        });
      } catch (error) {
        if (signal.aborted || (error instanceof Refused && error.status === 401)) return;
        // A place that the server doesn't know any more (its store was replaced): begin anew.
        if (error instanceof Refused && error.status < 500) reading = null;
      }
      if (signal.aborted) return;
      if (this.state.kind !== "lost") since = Date.now();
      const pause = Math.min(PAUSE_MOST, PAUSE_FIRST * 2 ** tries) * (0.5 + Math.random());
      tries += 1;
      this.set({ kind: "lost", since, retryAt: Date.now() + pause, tries });
      await this.paused(pause);
    }
  }

  /** Takes in the last events; gives the place from which the stream goes on. */
  private async begin(signal: AbortSignal): Promise<string | undefined> {
    const page = await get<Page<FeedEvent>>("/events", { last: FIRST }, signal);
    this.recent = page.items;
    this.seen = new Set(page.items.map((event) => event.id));
    return page.next ?? undefined;
  }

  private async read(reading: Reading, signal: AbortSignal, arrived: () => void): Promise<void> {
    const silence = new AbortController();
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => silence.abort(), SILENCE_MOST);
    };
    heard();
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (reading.last !== undefined) headers["Last-Event-ID"] = reading.last;
      const response = await send("/events", { headers, signal: AbortSignal.any([signal, silence.signal]) });
      reading.connected();
      this.set({ kind: "live" });
      if (response.body === null) return;
      const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await pieces.read();
        if (done) return;
        heard();
        arrived();
        for (const [index, message] of reading.take(value).entries()) {
          this.took(JSON.parse(message.data) as FeedEvent);
          if (index % BREATH === BREATH - 1) await new Promise((resolve) => setTimeout(resolve));
          if (signal.aborted) return;
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  private took(event: FeedEvent): void {
    if (this.seen.has(event.id)) return;
    this.seen.add(event.id);
    if (this.seen.size > 2 * RECENT_MOST) this.seen = new Set([...this.seen].slice(RECENT_MOST));
    this.pending.push(event);
    this.schedule();
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    if (document.hidden) window.setTimeout(() => this.flush(), HIDDEN_EVERY);
    else requestAnimationFrame(() => this.flush());
  }

  private flush(): void {
    this.scheduled = false;
    const batch = this.pending.splice(0, BATCH_MOST);
    if (batch.length === 0) return;
    this.recent = [...this.recent, ...batch].slice(-RECENT_MOST);
    for (const each of [...this.batches]) each(batch);
    for (const watcher of [...this.watchers]) watcher();
    if (this.pending.length > 0) this.schedule();
  }

  private set(state: Connection): void {
    this.state = state;
    for (const watcher of [...this.watchers]) watcher();
  }

  private async paused(milliseconds: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = window.setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

export const feed = new Feed();
