/**
 * The server's time, so that a reload, a second viewer and a machine with a wrong clock all see the same ages.
 *
 * A Date header is a whole second: the server's clock showed something from it up to a second later. Each answer
 * narrows down by how much our clock is off.
 */

const SECOND = 1000;

export class ServerClock {
  private low = -Infinity;
  private high = Infinity;
  private readonly local: () => number;

  constructor(local: () => number = () => Date.now()) {
    this.local = local;
  }

  /** An answer that was asked for at `sent` and whose head arrived just now. */
  heard(date: string | null, sent: number): void {
    const server = date === null ? NaN : Date.parse(date);
    if (Number.isNaN(server)) return;
    const received = this.local();
    const low = server - received;
    const high = server + SECOND - sent;
    const moved = low > this.high || high < this.low; // a clock was set: what we knew holds no more
    this.low = moved ? low : Math.max(this.low, low);
    this.high = moved ? high : Math.min(this.high, high);
  }

  /** Milliseconds since the epoch. */
  now(): number {
    const known = Number.isFinite(this.low) && Number.isFinite(this.high);
    return this.local() + (known ? (this.low + this.high) / 2 : 0);
  }
}

export const clock = new ServerClock();
