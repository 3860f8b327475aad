/**
 * The end of what a program wrote for a terminal, as plain text.
 *
 * Owns two promises: nothing in it moves a cursor, opens a link or turns the direction of text, and it never grows
 * beyond a bound, whatever is written.
 */

export const KEPT_MOST = 256 * 1024; // characters
const ESCAPE_MOST = 512; // what is longer is no escape

// A colour or movement; a title or link; a string for the terminal itself; any other escape of two or three characters.
const ESCAPE = /^\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/;
const UNFINISHED = /^\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)$/;
// Other control characters, and those that turn the direction of what follows.
const UNSAFE = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export class TerminalTail {
  /** Characters of the beginning that are left out. */
  dropped = 0;
  private lines = "";
  private line = "";
  private rest = "";
  private restart = false;

  constructor(private readonly most: number = KEPT_MOST) {}

  get text(): string {
    return this.lines + this.line;
  }

  take(piece: string): void {
    this.rest = this.plainOf(this.rest + piece);
    this.cut();
  }

  /** Writes it without its escapes; gives back the beginning of one whose rest may come with the next piece. */
  private plainOf(written: string): string {
    let text = written;
    for (;;) {
      const at = text.indexOf("\x1b");
      if (at < 0) break;
      this.plain(text.slice(0, at));
      text = text.slice(at);
      const whole = ESCAPE.exec(text.slice(0, ESCAPE_MOST));
      if (whole === null && text.length < ESCAPE_MOST && UNFINISHED.test(text)) {
        return text;
      }
      text = text.slice(whole ? whole[0].length : 1);
    }
    this.plain(text);
    return "";
  }

  private plain(text: string): void {
    if (text === "") return;
    for (const part of text.split(/(\r?\n|\r)/)) {
      if (part === "") continue;
      if (part === "\r") this.restart = true;
      else if (part.endsWith("\n")) this.end();
      else this.write(part);
    }
  }

  /** What begins a line anew (a progress bar, say) replaces what was in it. */
  private write(part: string): void {
    if (this.restart) this.line = "";
    this.restart = false;
    this.line += part.replace(UNSAFE, "\ufffd");
  }

  private end(): void {
    this.restart = false;
    this.lines += `${this.line}\n`;
    this.line = "";
  }

  private cut(): void {
    const over = this.lines.length + this.line.length - this.most;
    if (over <= 0) return;
    const at = this.lines.indexOf("\n", over - 1);
    const kept = at < 0 ? "" : this.lines.slice(at + 1);
    const line = this.line.slice(Math.max(0, this.line.length - this.most));
    this.dropped += this.lines.length - kept.length + this.line.length - line.length;
    this.lines = kept;
    this.line = line;
  }
}
