/**
 * How many windows of this browser hold a stream at once.
 *
 * Over HTTP/1.1 a browser opens six connections to a server, for all of its windows together. Were all of them
 * streams, no request would get through any more. Of output one window has a stream; the others look every second.
 */

const PLACES = { stream: 4, output: 1 };

/** Gives a place, as the act that gives it back; null: all of them are taken. */
export async function placed(what: keyof typeof PLACES = "stream"): Promise<(() => void) | null> {
  // On a plain address inside a network browsers have no locks; windows can't agree there, and each takes one.
  const locks = navigator.locks as LockManager | null | undefined;
  if (!locks) return () => undefined;
  for (let place = 0; place < PLACES[what]; place += 1) {
    const given = await asked(locks, `muster.${what}.${place}`);
    if (given) return given;
  }
  return null;
}

function asked(locks: LockManager, name: string): Promise<(() => void) | null> {
  return new Promise((resolve) => {
    const use = (lock: Lock | null): Promise<void> | undefined => {
      if (lock !== null) return new Promise<void>((giveBack) => resolve(giveBack));
      resolve(null);
      return undefined;
    };
    locks.request(name, { ifAvailable: true }, use).catch(() => resolve(() => undefined));
  });
}
