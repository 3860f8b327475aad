/** Server-sent events from pieces of text. Remembers where to go on after a break; half a message is dropped by it. */

export interface Message {
  event: string;
  data: string;
}

export class Reading {
  /** What Last-Event-ID takes the stream up from. */
  last: string | undefined;
  private rest = "";
  private event = "";
  private data: string[] = [];
  private place: string | undefined;

  constructor(last?: string) {
    this.last = last;
  }

  connected(): void {
    this.rest = "";
    this.begin();
  }

  /** One by one: the place moves on only when the next message is asked for, so none is passed that wasn't taken. */
  *take(piece: string): Generator<Message, void, undefined> {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const plain = line.endsWith("\r") ? line.slice(0, -1) : line;
      if (plain !== "") {
        this.field(plain);
        continue;
      }
      if (this.data.length > 0) yield { event: this.event, data: this.data.join("\n") };
      if (this.place !== undefined) this.last = this.place;
      this.begin();
    }
  }

  private begin(): void {
    this.event = "";
    this.data = [];
    this.place = undefined;
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "event") this.event = value;
    else if (name === "id" && !value.includes("\0")) this.place = value;
  }
}
