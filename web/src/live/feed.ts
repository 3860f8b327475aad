/**
 * The page's one event stream.
 *
 * Owns the connection: it is looked for again after a break, and goes on where it stopped. Events are handed on in
 * batches, one per frame at most, each once. Where it can't go on (at the start, when the server doesn't know the place
 * any more, when more came than the page could take), it begins anew and says so: all that was read before is stale.
 * A window for which the browser has no connection left begins anew again and again instead.
 */

import { get, Refused, send } from "../api/client";
import type { FeedEvent, Page } from "../api/types";
import { afterHidden, whenVisible } from "./looking";
import { pauseAfter } from "./pausing";
import { placed } from "./places";
import { Reading } from "./sse";

const SILENCE_MOST = 45_000; // the server says something every 15 seconds
const RECENT_MOST = 3000;
const FIRST = 300;
const BATCH_MOST = 1000;
const BREATH = 250; // after so many at once, the page may draw
const PENDING_MOST = 10_000;
export const FRAME_MOST = 500; // a hidden page gets no frames
const UNSEEN_MOST = 30_000;
const LOOK_EVERY = 10_000; // of a window that found no place for a stream

/** `every`: not by a stream, but by looking so often, in ms. */
export type Connection =
  | { kind: "connecting" }
  | { kind: "live"; every?: number }
  | { kind: "lost"; since: number; retryAt: number; tries: number };

type Batch = (events: readonly FeedEvent[]) => void;

/** More came than the page could take. */
class Behind extends Error {}

export class Feed {
  private state: Connection = { kind: "connecting" };
  private readonly watchers = new Set<() => void>();
  private readonly batches = new Set<Batch>();
  private pending: FeedEvent[] = [];
  private readonly stales = new Set<() => void>();
  private frame = 0;
  private timer = 0;
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

  /** Calls when what was read before may lack changes that no event will tell of: read it again. */
  readonly resynchronise = (stale: () => void): (() => void) => {
    this.stales.add(stale);
    return () => this.stales.delete(stale);
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

  /** A request just now reached no server: a stream that says nothing may be as dead, and is begun anew to see. */
  readonly doubt = (): void => this.suspected();

  private suspected: () => void = () => undefined;

  /** Don't wait for the rest of the pause. */
  readonly retry = (): void => this.wake();

  private wake: () => void = () => undefined;

  private async run(signal: AbortSignal): Promise<void> {
    let reading: Reading | null = null;
    let tries = 0;
    let since = 0;
    while (!signal.aborted) {
      const unseen = new AbortController();
      const seen = afterHidden(UNSEEN_MOST, () => unseen.abort());
      const giveBack = await placed();
      try {
        if (giveBack === null) {
          reading = null;
          await this.begin(signal);
          this.set({ kind: "live", every: LOOK_EVERY });
          await this.paused(LOOK_EVERY);
          await whenVisible(signal);
          continue;
        }
        reading ??= new Reading(await this.begin(signal));
        await this.read(reading, AbortSignal.any([signal, unseen.signal]), () => {
          tries = 0;
        });
      } catch (error) {
        if (signal.aborted || (error instanceof Refused && error.status === 401)) return;
        if (error instanceof Behind || forgotten(error)) reading = null;
        if (error instanceof Behind) continue;
      } finally {
        seen();
        giveBack?.();
      }
      if (unseen.signal.aborted) {
        this.set({ kind: "connecting" });
        await whenVisible(signal);
        continue;
      }
      if (signal.aborted) return;
      if (this.state.kind !== "lost") since = Date.now();
      const pause = pauseAfter(tries);
      tries += 1;
      this.set({ kind: "lost", since, retryAt: Date.now() + pause, tries });
      await this.paused(pause);
    }
  }

  /** Takes in the last events; gives the place from which the stream goes on. */
  private async begin(signal: AbortSignal): Promise<string | undefined> {
    const page = await get<Page<FeedEvent>>("/events", { last: FIRST }, signal);
    this.recent = page.items;
    this.pending = [];
    this.seen = new Set(page.items.map((event) => event.id));
    for (const stale of [...this.stales]) stale();
    return page.next ?? undefined;
  }

  private async read(reading: Reading, signal: AbortSignal, arrived: () => void): Promise<void> {
    const silence = new AbortController();
    this.suspected = () => silence.abort();
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => silence.abort(), SILENCE_MOST);
    };
    heard();
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (reading.last !== undefined) headers["Last-Event-ID"] = reading.last;
      const ended = AbortSignal.any([signal, silence.signal]);
      const response = await send("/events", { headers, signal: ended, endless: true });
      reading.connected();
      this.set({ kind: "live" });
      if (response.body === null) return;
      const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await pieces.read();
        if (done) return;
        heard();
        arrived();
        let count = 0;
        for (const message of reading.take(value)) {
          this.took(JSON.parse(message.data) as FeedEvent);
          count += 1;
          if (count % BREATH === 0) await new Promise((resolve) => setTimeout(resolve));
          if (signal.aborted) return;
        }
      }
    } finally {
      clearTimeout(timer);
      silence.abort(); // also if we are who stops listening: the connection is given back
    }
  }

  private took(event: FeedEvent): void {
    if (this.seen.has(event.id)) return;
    this.seen.add(event.id);
    if (this.seen.size > 2 * RECENT_MOST) this.seen = new Set([...this.seen].slice(RECENT_MOST));
    this.pending.push(event);
    if (this.pending.length > PENDING_MOST) throw new Behind();
    this.schedule();
  }

  private schedule(): void {
    if (this.timer !== 0) return;
    this.frame = requestAnimationFrame(() => this.flush());
    this.timer = window.setTimeout(() => this.flush(), FRAME_MOST);
  }

  private flush(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.timer = 0;
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

/** The server doesn't know the place any more (its store was replaced). What a proxy refuses says nothing about it. */
function forgotten(error: unknown): boolean {
  if (!(error instanceof Refused)) return false;
  return error.code === "cursor_lost" || ([400, 422].includes(error.status) && error.code === "invalid_request");
}

export const feed = new Feed();
