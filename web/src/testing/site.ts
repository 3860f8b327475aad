/** A server whose answers and stream the test writes. */

import { vi } from "vitest";
import { feed } from "../live/feed";
import type { FeedEvent } from "../api/types";

type Answer = (address: string, init: RequestInit) => Response | Promise<Response>;

export class Site {
  readonly asked: { path: string; headers: Headers; method: string; body?: unknown }[] = [];
  private readonly answering: [string, Answer][] = [];
  private stream: ReadableStreamDefaultController<Uint8Array> | null = null;
  private said = 0;

  constructor() {
    vi.stubGlobal("fetch", this.fetch);
  }

  /** For every path that begins so; the last word about a path holds. */
  answers(path: string, answer: Answer): void {
    this.answering.unshift([path, answer]);
  }

  /** The next request for it waits until the test gives the answer. */
  holds(path: string): (answer: Response) => void {
    let give: (answer: Response) => void = () => undefined;
    const held = new Promise<Response>((resolve) => (give = resolve));
    this.answers(path, () => held);
    return give;
  }

  count(path: string): number {
    return this.asked.filter((each) => each.path.startsWith(path)).length;
  }

  /** Puts events on the stream, and waits until the page has them. */
  async says(...events: FeedEvent[]): Promise<void> {
    const ids = events.map((each) => ({ ...each, id: `said-${++this.said}` }));
    const words = ids.map((each) => `id: ${this.said}\ndata: ${JSON.stringify(each)}\n\n`).join("");
    this.stream?.enqueue(new TextEncoder().encode(words));
    await vi.waitFor(() => {
      if (feed.recent.at(-1)?.id !== ids.at(-1)?.id) throw new Error("not there yet");
    });
  }

  private readonly fetch = async (address: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    const path = String(address).replace("/api/v1", "");
    const headers = new Headers(init.headers);
    const body: unknown = typeof init.body === "string" ? JSON.parse(init.body) : undefined;
    this.asked.push({ path, headers, method: init.method ?? "GET", ...(body !== undefined && { body }) });
    if (headers.get("Accept")?.includes("event-stream")) {
      const body = new ReadableStream<Uint8Array>({
        start: (control) => {
          this.stream = control;
          init.signal?.addEventListener("abort", () => control.error(init.signal?.reason));
        },
      });
      return new Response(body);
    }
    const found = this.answering.find(([begins]) => path.startsWith(begins));
    return found ? await found[1](path, init) : Response.json({ items: [], next: null });
  };
}
