import { beforeEach, describe, expect, test, vi } from "vitest";
import { TerminalLink } from "./terminal";

class Socket {
  static readonly OPEN = 1;
  static last: Socket;
  readyState = Socket.OPEN;
  sent: (string | Uint8Array)[] = [];
  onmessage: (event: { data: unknown }) => void = () => undefined;
  onclose: () => void = () => undefined;
  constructor(
    readonly url: URL,
    readonly protocols: string[],
  ) {
    Socket.last = this;
  }
  send(data: string | Uint8Array) {
    this.sent.push(data);
  }
  close() {
    this.onclose();
  }
  say(words: object) {
    this.onmessage({ data: JSON.stringify(words) });
  }
  show(at: number, text: string) {
    const message = new Uint8Array(8 + text.length);
    new DataView(message.buffer).setBigUint64(0, BigInt(at));
    message.set(new TextEncoder().encode(text), 8);
    this.onmessage({ data: message.buffer });
  }
  get typed(): [number, string][] {
    return this.sent
      .filter((each) => typeof each !== "string")
      .map((each) => [Number(new DataView(each.buffer).getBigUint64(0)), new TextDecoder().decode(each.subarray(8))]);
  }
  get words(): unknown[] {
    return this.sent.filter((each) => typeof each === "string").map((each) => JSON.parse(each) as unknown);
  }
}

const bytes = (text: string) => new TextEncoder().encode(text);

describe("a terminal's link", () => {
  let shown = "";
  const on = {
    shown: (data: Uint8Array, taken: () => void) => {
      shown += new TextDecoder().decode(data);
      taken();
    },
    waiting: vi.fn(),
    exited: vi.fn(),
    ended: vi.fn(),
  };

  beforeEach(() => {
    shown = "";
    vi.useFakeTimers();
    vi.stubGlobal("WebSocket", Socket);
    for (const each of [on.waiting, on.exited, on.ended]) each.mockClear();
    return () => {
      vi.useRealTimers();
      vi.unstubAllGlobals();
    };
  });

  test("sends what is typed once the node is there, and shows each byte once", () => {
    const link = new TerminalLink("cmd-1.0", on);
    const socket = Socket.last;
    expect(socket.url.pathname).toBe("/api/v1/commands/cmd-1.0/terminal");
    link.typed(bytes("early"));
    expect(socket.typed).toEqual([]);
    socket.say({ paired: true });
    socket.say({ have: 0 });
    expect(socket.typed).toEqual([[0, "early"]]);
    socket.show(0, "hello");
    socket.show(0, "hello");
    socket.show(3, "lo you");
    socket.show(99, "a gap");
    expect(shown).toBe("hello you");
    socket.say({ exit: 3 });
    expect(on.exited).toHaveBeenCalledWith(3);
    expect(socket.words.at(-1)).toEqual({ have: 9 });
  });

  test("sends anew after a break from where the node is, and nothing twice", () => {
    const link = new TerminalLink("cmd-1.0", on);
    const first = Socket.last;
    first.say({ paired: true });
    first.say({ have: 0 });
    link.typed(bytes("abcdef"));
    first.show(0, "abc");
    first.onclose();
    expect(on.waiting).toHaveBeenCalledWith("server");
    vi.advanceTimersByTime(1000);
    const second = Socket.last;
    expect(second).not.toBe(first);
    second.say({ paired: true });
    expect(second.words[0]).toEqual({ have: 3 });
    second.say({ have: 4 });
    expect(second.typed).toEqual([[4, "ef"]]);
  });

  test("gives up after a minute, and says so", () => {
    new TerminalLink("cmd-1.0", on);
    for (let tries = 0; tries < 70; tries++) {
      Socket.last.onclose();
      vi.advanceTimersByTime(1000);
    }
    expect(on.ended).toHaveBeenCalledTimes(1);
    expect(on.ended.mock.calls[0]?.[0]).toMatchObject({ why: "lost" });
  });
});
