/**
 * Where in the page one is. The address is all the state that there is: filters, sorting and searches live in it, so
 * a reload, the back button and a shared link show the same.
 */

import { type AnchorHTMLAttributes, type MouseEvent, useMemo, useSyncExternalStore } from "react";

const MOVED = "muster:moved";

function subscribe(listener: () => void): () => void {
  addEventListener("popstate", listener);
  addEventListener(MOVED, listener);
  return () => {
    removeEventListener("popstate", listener);
    removeEventListener(MOVED, listener);
  };
}

const address = (): string => location.pathname + location.search;

export function useAddress(): { path: string; query: URLSearchParams } {
  const now = useSyncExternalStore(subscribe, address);
  return useMemo(() => {
    const url = new URL(now, location.origin);
    return { path: url.pathname, query: url.searchParams };
  }, [now]);
}

export function navigate(to: string, how: "push" | "replace" = "push"): void {
  if (to === address()) return;
  if (how === "push") history.pushState(null, "", to);
  else history.replaceState(null, "", to);
  dispatchEvent(new Event(MOVED));
  if (how === "push") scrollTo(0, 0);
}

/** Changes one part of the query; null takes it out. */
export function setQuery(changes: Record<string, string | null>, how: "push" | "replace" = "replace"): void {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  navigate(url.pathname + url.search, how);
}

export function to(...segments: string[]): string {
  return `/${segments.map(encodeURIComponent).join("/")}`;
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { href: string };

/** A true link: it opens in a new tab, can be copied, and works with the keyboard. */
export function Link({ href, onClick, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !plain) return;
    event.preventDefault();
    navigate(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}

/** The variable parts of a path that fits the pattern, as in `/nodes/:id`; null if it doesn't. */
export function matched(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (wanted.length !== given.length) return null;
  const found: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? "";
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return null; // a broken escape names nothing
      }
    } else if (part !== value) {
      return null;
    }
  }
  return found;
}
