/** How long to wait before the next try: longer each time, and with chance, so that many pages don't come back at once. */

const FIRST = 500;
const MOST = 15_000;

export function pauseAfter(tries: number): number {
  return Math.min(MOST, FIRST * 2 ** tries) * (0.5 + Math.random());
}
