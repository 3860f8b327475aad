/**
 * The output of one command, read by offset as it comes, until the command has ended.
 *
 * A stream if the browser has a connection left for one, else a look every second. After a break it goes on where it
 * stopped: nothing twice, nothing missed. Only the end is kept, within a bound.
 */

import { useEffect, useState } from "react";
import { passing, Refused, send } from "../api/client";
import { TerminalTail } from "../words/terminal";
import { afterHidden, whenVisible } from "./looking";
import { pauseAfter } from "./pausing";
import { placed } from "./places";

const LOOK_EVERY = 1000;
const TOLD_EVERY = 100; // several times as fast as one reads
const UNSEEN_MOST = 30_000;
const OVER = new Set(["exited", "lost"]);

export interface Output {
  text: string;
  /** Characters of the beginning that are left out. */
  dropped: number;
  /** Whether all of it was read. */
  whole: boolean;
  error: Error | null;
}

const NOTHING: Output = { text: "", dropped: 0, whole: false, error: null };

export function useOutput(commandId: string): Output {
  const [shown, setShown] = useState({ commandId, output: NOTHING });
  useEffect(() => {
    const reading = new OutputReading(commandId, (output) => setShown({ commandId, output }));
    return reading.start();
  }, [commandId]);
  return shown.commandId === commandId ? shown.output : NOTHING;
}

export class OutputReading {
  private offset = 0;
  private readonly tail = new TerminalTail();
  private readonly decoder = new TextDecoder();
  private readonly stopping = new AbortController();
  private error: Error | null = null;
  private whole = false;
  private timer = 0;

  constructor(
    private readonly commandId: string,
    private readonly told: (output: Output) => void,
  ) {}

  start(): () => void {
    void this.run(this.stopping.signal);
    return () => {
      this.stopping.abort();
      clearTimeout(this.timer);
    };
  }

  private async run(signal: AbortSignal): Promise<void> {
    let tries = 0;
    while (!signal.aborted && !this.whole) {
      const before = this.offset;
      try {
        await this.read(signal);
        this.fails(null);
        tries = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && !passing(error)) return this.fails(error);
        if (passing(error)) this.fails(error as Error);
        tries = this.offset > before ? 0 : tries + 1;
        await paused(pauseAfter(tries), signal);
      }
      await whenVisible(signal);
    }
  }

  private async read(signal: AbortSignal): Promise<void> {
    const unseen = new AbortController();
    const seen = afterHidden(UNSEEN_MOST, () => unseen.abort());
    const giveBack = await placed("output");
    try {
      if (giveBack === null) {
        if (await this.piece(signal)) return;
        await paused(LOOK_EVERY, signal);
        return;
      }
      await this.stream(AbortSignal.any([signal, unseen.signal]));
      // The server ends a stream when the command has ended, and also when it restarts: only an answer tells which.
      await this.piece(signal);
    } finally {
      seen();
      giveBack?.();
    }
  }

  private async stream(signal: AbortSignal): Promise<void> {
    const response = await this.asked({ follow: "true" }, signal, true);
    const reader = response.body?.getReader();
    if (!reader) return;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.take(value);
    }
  }

  /** Reads what there is from the offset on; tells whether there was anything. */
  private async piece(signal: AbortSignal): Promise<boolean> {
    const response = await this.asked({}, signal, false);
    const data = new Uint8Array(await response.arrayBuffer());
    if (data.length > 0) {
      this.take(data);
      return true;
    }
    if (OVER.has(response.headers.get("Muster-Command-State") ?? "")) {
      this.whole = true;
      this.tell();
    }
    return false;
  }

  private asked(query: { follow?: string }, signal: AbortSignal, endless: boolean): Promise<Response> {
    const path = `/commands/${encodeURIComponent(this.commandId)}/output`;
    return send(path, { query: { offset: this.offset, ...query }, signal, endless });
  }

  private take(data: Uint8Array): void {
    this.offset += data.length;
    this.tail.take(this.decoder.decode(data, { stream: true }));
    this.error = null;
    this.tell();
  }

  private fails(error: Error | null): void {
    if (this.error === error) return;
    this.error = error;
    this.tell();
  }

  /** A program may write a thousand lines a second; the page is drawn ten times. */
  private tell(): void {
    if (this.timer !== 0) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      const { text, dropped } = this.tail;
      if (!this.stopping.signal.aborted) this.told({ text, dropped, whole: this.whole, error: this.error });
    }, TOLD_EVERY);
  }
}

function paused(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
