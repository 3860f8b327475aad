/**
 * All nodes, for the table: read page by page in the background, then kept up to date by events alone.
 *
 * Events may arrive before, while and after a page that tells of the same node: the higher version wins.
 */

import { get } from "../api/client";
import type { FeedEvent, Node, NodeState, Page } from "../api/types";
import { feed } from "./feed";
import { folded } from "./folding";

const PAGE = 500;
export const MOST = 20_000;
const TELL_EVERY = 250; // sorting ten thousand rows for each of sixty frames a second would freeze the page
const FEW = 600;

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
  /** Nodes that the table has no place for any more, with the version that said so. */
  private readonly gone = new Map<string, number>();
  private readonly felt = new Map<string, { event: FeedEvent; at: number }>();
  private readonly stopping = new AbortController();
  private state: FleetState = { nodes: [], whole: false, more: false, error: undefined };
  private timer = 0;

  constructor(
    private readonly states: readonly NodeState[],
    private readonly told: (state: FleetState) => void,
  ) {}

  start(): () => void {
    const end = feed.subscribe((events) => this.take(events));
    void this.load();
    return () => {
      end();
      clearTimeout(this.timer);
      this.stopping.abort();
    };
  }

  private async load(): Promise<void> {
    let cursor: string | undefined;
    try {
      do {
        const asked = performance.now();
        const query = { limit: PAGE, state: this.states, ...(cursor !== undefined && { cursor }) };
        const page: Page<Node> = await get<Page<Node>>("/nodes", query, this.stopping.signal);
        for (const node of page.items) this.put(node, asked);
        cursor = page.items.length === 0 ? undefined : (page.next ?? undefined);
        this.state = { ...this.state, whole: cursor === undefined, more: cursor !== undefined };
        this.tell();
      } while (cursor !== undefined && this.known.size < MOST);
      this.state = { ...this.state, whole: true };
    } catch (error) {
      if (this.stopping.signal.aborted) return;
      this.state = { ...this.state, error: error as Error };
    }
    this.tell();
  }

  private put(node: Node, asked: number): void {
    if ((this.gone.get(node.id) ?? -1) >= node.version) return;
    const had = this.known.get(node.id);
    let kept = had !== undefined && had.version > node.version ? { ...node, ...had } : node;
    const felt = this.felt.get(node.id);
    if (felt !== undefined && felt.at >= asked) kept = folded(kept, felt.event) ?? kept;
    this.keep(kept);
  }

  private take(events: readonly FeedEvent[]): void {
    let moved = false;
    for (const event of events) {
      if (event.entity !== "node" && event.entity !== "health") continue;
      if (event.entity === "health") this.felt.set(event.entity_id, { event, at: performance.now() });
      const had = this.known.get(event.entity_id);
      const after = folded(had, event);
      if (after === undefined || after === had) continue;
      this.keep(after);
      moved = true;
    }
    if (moved) this.tell();
  }

  private keep(node: Node): void {
    if (this.states.includes(node.state)) {
      this.known.set(node.id, node);
    } else {
      this.known.delete(node.id);
      this.gone.set(node.id, node.version);
    }
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
