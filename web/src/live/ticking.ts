/** One clock for all that counts: every age and countdown on the page moves together, once a second. */

import { useSyncExternalStore } from "react";
import { clock } from "../api/clock";

const EVERY = 1000;
const listeners = new Set<() => void>();
let timer = 0;
let now = clock.now();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === 0) {
    timer = window.setInterval(() => {
      now = clock.now();
      for (const each of [...listeners]) each();
    }, EVERY);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = 0;
    }
  };
}

/** The server's time in ms, once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, read);
}

function read(): number {
  // Between ticks the same value, as React demands; a fresh one if it was not read for a while, or the offset became known.
  if (Math.abs(clock.now() - now) > (timer === 0 ? EVERY : 2 * EVERY)) now = clock.now();
  return now;
}
