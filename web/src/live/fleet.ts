/**
 * All nodes, for the table: read page by page in the background, then carried forward by events.
 *
 * Events may arrive before, while and after a page that tells of the same node: what they said while something was
 * being read is folded into the record that arrives, and the higher version wins. Where an event is missing, that node
 * is read; where the feed had to begin anew, all of them.
 */

import { get, passing, Refused } from "../api/client";
import type { FeedEvent, Node, NodeState, Page } from "../api/types";
import { feed } from "./feed";
import { folded } from "./folding";
import { pauseAfter } from "./pausing";

const PAGE = 500;
export const MOST = 20_000;
const TELL_EVERY = 250; // sorting ten thousand rows for each of sixty frames a second would freeze the page
const FEW = 600;
const DOUBTED_MOST = 50; // beyond, reading all of them is cheaper

export interface FleetState {
  nodes: readonly Node[];
  /** Whether every page has been read. */
  whole: boolean;
  /** There are more than the table holds. */
  more: boolean;
  error: Error | undefined;
}

export class Fleet {
  private readonly known = new Map<string, Node>();
  /** What events said since the reading under way began. */
  private readonly meanwhile = new Map<string, FeedEvent[]>();
  /** Nodes of which an event was missed. */
  private readonly doubted = new Set<string>();
  private state: FleetState = { nodes: [], whole: false, more: false, error: undefined };
  private reading: AbortController | null = null;
  private tries = 0;
  private timer = 0;
  private retrying = 0;

  constructor(
    private readonly states: readonly NodeState[],
    private readonly told: (state: FleetState) => void,
  ) {}

  start(): () => void {
    let connected = feed.connection().kind;
    const ends = [
      feed.subscribe((events) => this.take(events)),
      feed.resynchronise(this.reload),
      feed.watch(() => {
        const back = feed.connection().kind === "live" && connected !== "live";
        connected = feed.connection().kind;
        if (back && passing(this.state.error)) this.reload();
      }),
    ];
    this.reload();
    return () => {
      for (const end of ends) end();
      clearTimeout(this.timer);
      clearTimeout(this.retrying);
      this.reading?.abort();
    };
  }

  /** Reads all of them again. What is known stays in the table meanwhile. */
  readonly reload = (): void => {
    clearTimeout(this.retrying);
    this.reading?.abort();
    this.reading = new AbortController();
    this.doubted.clear();
    void this.read(this.reading.signal, (signal) => this.all(signal));
  };

  private async read(signal: AbortSignal, what: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.meanwhile.clear();
    try {
      await what(signal);
      this.tries = 0;
      this.state = { ...this.state, error: undefined };
    } catch (error) {
      if (signal.aborted) return;
      this.tries += 1;
      this.state = { ...this.state, error: error as Error };
      if (passing(error)) this.retrying = window.setTimeout(this.reload, pauseAfter(this.tries));
    }
    this.reading = null;
    this.meanwhile.clear();
    this.tell();
    if (this.state.error === undefined) this.settle();
  }

  private async all(signal: AbortSignal): Promise<void> {
    const found = new Set<string>();
    let cursor: string | undefined;
    do {
      const query = { limit: PAGE, state: this.states, ...(cursor !== undefined && { cursor }) };
      const page: Page<Node> = await get<Page<Node>>("/nodes", query, signal);
      for (const node of page.items) {
        found.add(node.id);
        this.put(node);
      }
      cursor = page.items.length === 0 ? undefined : (page.next ?? undefined);
      this.tell();
    } while (cursor !== undefined && found.size < MOST);
    // What is neither in a page nor in an event since then went without a word that we heard.
    for (const id of this.known.keys()) if (!found.has(id) && !this.meanwhile.has(id)) this.known.delete(id);
    this.state = { ...this.state, whole: true, more: cursor !== undefined };
  }

  /** Reads those of which an event was missed, unless a page has told of them by now. */
  private settle(): void {
    if (this.reading !== null || this.doubted.size === 0) return;
    if (this.doubted.size > DOUBTED_MOST) {
      this.reload();
      return;
    }
    const ids = [...this.doubted];
    this.doubted.clear();
    this.reading = new AbortController();
    void this.read(this.reading.signal, async (signal) => {
      for (const id of ids) await this.one(id, signal);
    });
  }

  private async one(id: string, signal: AbortSignal): Promise<void> {
    try {
      this.put(await get<Node>(`/nodes/${encodeURIComponent(id)}`, undefined, signal));
    } catch (error) {
      if (!(error instanceof Refused && error.notFound)) throw error;
      this.known.delete(id);
    }
  }

  private put(node: Node): void {
    const had = this.known.get(node.id);
    let kept = had !== undefined && had.version > node.version ? { ...node, ...had, ...feeling(node) } : node;
    this.doubted.delete(node.id);
    for (const event of this.meanwhile.get(node.id) ?? []) {
      if (event.entity === "node" && event.version > kept.version + 1) this.doubted.add(node.id);
      kept = folded(kept, event) ?? kept;
    }
    this.keep(kept);
  }

  private take(events: readonly FeedEvent[]): void {
    let moved = false;
    for (const event of events) {
      if (event.entity !== "node" && event.entity !== "health") continue;
      if (this.reading !== null) this.note(event);
      const had = this.known.get(event.entity_id);
      const after = folded(had, event);
      if (event.entity === "node" && this.missed(had, after, event)) this.doubted.add(event.entity_id);
      if (after === undefined || after === had) continue;
      this.keep(after);
      moved = true;
    }
    if (moved) this.tell();
    this.settle();
  }

  private note(event: FeedEvent): void {
    const before = this.meanwhile.get(event.entity_id);
    if (before) before.push(event);
    else this.meanwhile.set(event.entity_id, [event]);
  }

  private missed(had: Node | undefined, after: Node | undefined, event: FeedEvent): boolean {
    if (had !== undefined) return event.version > had.version + 1;
    const belongs = this.states.includes(event.changes["state"] as NodeState);
    return after === undefined && belongs && !this.state.more;
  }

  private keep(node: Node): void {
    if (this.states.includes(node.state)) this.known.set(node.id, node);
    else this.known.delete(node.id);
  }

  private tell(): void {
    if (this.timer !== 0) return;
    this.timer = window.setTimeout(
      () => {
        this.timer = 0;
        this.state = { ...this.state, nodes: [...this.known.values()] };
        this.told(this.state);
      },
      this.known.size < FEW ? 0 : TELL_EVERY,
    );
  }
}

/** Health has no version: of two records the one that was read last is right. */
function feeling({ health, health_reason, health_source, health_since }: Node): Partial<Node> {
  return {
    ...(health !== undefined && { health }),
    ...(health_reason !== undefined && { health_reason }),
    ...(health_source !== undefined && { health_source }),
    ...(health_since !== undefined && { health_since }),
  };
}
