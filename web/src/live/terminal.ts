/**
 * The page's end of a terminal: one WebSocket, made anew when it breaks, and bytes that are numbered both ways.
 *
 * The words are in docs/shell.md. What the node hasn't taken yet is kept and sent again, so no key is lost or doubled.
 */

import { ROOT } from "../api/client";
import { session } from "../api/session";

const PIECE = 32 * 1024;
const PATIENCE = 60_000; // a node keeps a shell for as long while its person is away
const AGAIN = 1000;

export interface Ended {
  why: string;
  detail?: string;
  status?: number;
}

export interface TerminalEvents {
  shown: (data: Uint8Array, taken: () => void) => void;
  waiting: (who: "node" | "server" | null) => void;
  exited: (code: number) => void;
  ended: (ended: Ended) => void;
}

export class TerminalLink {
  private socket: WebSocket | null = null;
  private kept = new Uint8Array();
  private base = 0;
  private sent = 0;
  private got = 0;
  private taken = 0;
  private acknowledged = 0;
  private resumed = false;
  private over = false;
  private lostAt = 0;
  private timer = 0;
  private size: readonly [number, number] = [24, 80];

  constructor(
    private readonly commandId: string,
    private readonly on: TerminalEvents,
  ) {
    this.connect();
  }

  typed(data: Uint8Array): void {
    const joined = new Uint8Array(this.kept.length + data.length);
    joined.set(this.kept);
    joined.set(data, this.kept.length);
    this.kept = joined;
    this.flush();
  }

  resized(rows: number, cols: number): void {
    this.size = [rows, cols];
    this.say({ resize: this.size });
  }

  /** Ends the shell on the node. */
  leave(): void {
    this.say({ leave: true });
    this.close();
  }

  close(): void {
    this.over = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  private connect(): void {
    const address = new URL(`${ROOT}/commands/${encodeURIComponent(this.commandId)}/terminal`, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const token = session.get().token;
    const socket = new WebSocket(address, ["muster.terminal", ...(token ? [`bearer.${token}`] : [])]);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => this.heard(data as string | ArrayBuffer);
    socket.onclose = () => this.lost();
    this.socket = socket;
  }

  private lost(): void {
    this.resumed = false;
    this.socket = null;
    if (this.over) return;
    this.lostAt ||= Date.now();
    if (Date.now() - this.lostAt > PATIENCE) {
      this.over = true;
      this.on.ended({ why: "lost", detail: "the server could not be reached; open another terminal" });
      return;
    }
    this.on.waiting("server");
    this.timer = window.setTimeout(() => this.connect(), AGAIN);
  }

  private heard(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      this.bytes(new DataView(data));
      return;
    }
    const said = JSON.parse(data) as Record<string, unknown>;
    if ("paired" in said) this.paired();
    else if ("unpaired" in said) this.unpaired();
    else if (typeof said["have"] === "number") this.have(said["have"]);
    else if (typeof said["exit"] === "number") this.exited(said["exit"]);
    else if ("ended" in said) this.finish(() => this.on.ended(said["ended"] as Ended));
  }

  private paired(): void {
    this.lostAt = 0;
    this.resumed = false;
    this.got = this.taken;
    this.on.waiting(null);
    this.acknowledge();
    this.say({ resize: this.size });
  }

  private unpaired(): void {
    this.resumed = false;
    this.on.waiting("node");
  }

  private have(count: number): void {
    const taken = Math.min(Math.max(count, this.base), this.base + this.kept.length);
    this.kept = this.kept.slice(taken - this.base);
    this.base = taken;
    this.sent = this.resumed ? Math.max(this.sent, taken) : taken;
    this.resumed = true;
    this.flush();
  }

  private bytes(message: DataView): void {
    const known = this.got - Number(message.getBigUint64(0));
    if (known < 0 || known >= message.byteLength - 8) return; // a gap, or a repetition
    const data = new Uint8Array(message.buffer, message.byteOffset + 8 + known);
    this.got += data.length;
    this.on.shown(data, () => {
      this.taken += data.length;
      if (this.taken - this.acknowledged >= PIECE) this.acknowledge();
    });
  }

  private exited(code: number): void {
    this.say({ have: this.got });
    this.finish(() => this.on.exited(code));
  }

  private finish(tell: () => void): void {
    this.over = true;
    tell();
    this.socket?.close();
  }

  private flush(): void {
    while (this.resumed && this.sent < this.base + this.kept.length) {
      const piece = this.kept.subarray(this.sent - this.base).subarray(0, PIECE);
      const message = new Uint8Array(8 + piece.length);
      new DataView(message.buffer).setBigUint64(0, BigInt(this.sent));
      message.set(piece, 8);
      this.socket?.send(message);
      this.sent += piece.length;
    }
  }

  private acknowledge(): void {
    this.acknowledged = this.taken;
    this.say({ have: this.taken });
  }

  private say(words: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(words));
  }
}
