/** The bar at the top, and the word that the connection is lost. */

import { useState } from "react";
import { signOut } from "../api/signing-in";
import { feed } from "../live/feed";
import { useConnection } from "../live/history";
import { useNow } from "../live/ticking";
import { Link, setQuery } from "../routing/router";
import { seconds } from "../words/time";
import { useMay, useWho } from "./act";
import { Icon, ToneSign } from "./icons";
import { Logo } from "./logo";
import { useMenu } from "./menu";
import { PaletteKey } from "./palette-key";
import { Countdown } from "./words";

const PAGES = [
  ["/", "Overview"],
  ["/operations", "Operations"],
  ["/jobs", "Jobs"],
  ["/nodes", "Nodes"],
  ["/templates", "Templates"],
  ["/clusters", "Clusters"],
  ["/events", "Events"],
  ["/api", "API"],
] as const;

export function Header({ path }: { path: string }) {
  const operator = useMay("operator");
  return (
    <header className="top">
      <Link href="/" className="top-logo" aria-label="Muster, to the overview">
        <Logo />
      </Link>
      <nav aria-label="Pages" className="top-nav">
        {PAGES.map(([href, name]) => {
          const here = href === "/" ? path === "/" : path === href || path.startsWith(`${href}/`);
          return (
            <Link
              key={href}
              href={href}
              aria-current={here ? "page" : undefined}
              {...(href === "/api" && { className: "wide" })}
            >
              {name}
            </Link>
          );
        })}
      </nav>
      <div className="top-side">
        <Live />
        <PaletteKey />
        {operator && (
          <button type="button" className="button button-primary" onClick={() => setQuery({ provision: "1" }, "push")}>
            <Icon name="plus" />
            <span className="top-word">Provision</span>
          </button>
        )}
        <Account />
      </div>
    </header>
  );
}

function Live() {
  const connection = useConnection();
  const every = connection.kind === "live" && connection.every;
  const words = { connecting: "connecting", live: every ? `every ${every / 1000} s` : "live", lost: "offline" };
  return (
    <span
      className={`live live-${connection.kind}`}
      data-testid="connection"
      data-connection={connection.kind}
      title={
        every
          ? "Other windows of this browser use its connections to the server; this one looks now and then"
          : "Whether this page hears of changes as they happen"
      }
    >
      <i /> <span className="top-word">{words[connection.kind]}</span>
    </span>
  );
}

export function ConnectionLost() {
  const connection = useConnection();
  if (connection.kind !== "lost") return null;
  return (
    <div className="lost tone-warning" data-testid="connection-lost">
      <ToneSign tone="warning" />
      <span>
        <span role="alert">
          <strong>Connection lost, retrying.</strong> What you see is as it was before; nothing that happens meanwhile
          is missed.
        </span>{" "}
        <NextTry at={connection.retryAt} />
      </span>
      <button type="button" className="button" onClick={feed.retry}>
        Retry now
      </button>
    </div>
  );
}

/** Outside of the alert, which would be read aloud anew every second. */
function NextTry({ at }: { at: number }) {
  const now = useNow();
  // The pause is this machine's own, so it is counted on its own clock; `now` only makes it tick.
  const wait = now > 0 ? Math.max(0, Math.ceil((at - Date.now()) / 1000)) : 0;
  return <span aria-hidden="true">{wait > 0 ? `Next try in ${wait} s.` : "Trying now."}</span>;
}

function Account() {
  const who = useWho();
  const left = seconds(who?.expires_at, useNow());
  const menu = useMenu();
  return (
    <details className="account" ref={menu}>
      <summary className="button">
        <span className="unseen">Account</span>
        <bdi className="account-name top-word">{who?.name || who?.role}</bdi>
        <Icon name="person" />
      </summary>
      <div className="account-menu card">
        <p>
          <bdi className="name">{who?.name}</bdi> <span className="faint">· {who?.role}</span>
        </p>
        {who?.expires_at && left !== null && (
          <p className="faint">
            <Countdown until={who.expires_at} ahead={`${who.kind} ends in `} over={`${who.kind} ended`} />
          </p>
        )}
        <Theme />
        <Link href="/wallboard">Wallboard</Link>
        <Link href="/api">API reference</Link>
        <button type="button" className="button" onClick={() => void signOut()}>
          <Icon name="out" />
          Sign out
        </button>
        {who?.version && <p className="faint">Muster {who.version}</p>}
      </div>
    </details>
  );
}

const THEMES = ["auto", "light", "dark"] as const;
const THEME_KEY = "muster.theme"; // read by theme.js before the first paint

function Theme() {
  const [theme, setTheme] = useState<string>(() => document.documentElement.dataset["theme"] ?? "auto");
  const choose = (chosen: string) => {
    setTheme(chosen);
    if (chosen === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = chosen;
    try {
      localStorage.setItem(THEME_KEY, chosen);
    } catch {
      // It holds until the page is closed.
    }
  };
  return (
    <fieldset className="segments">
      <legend className="unseen">Appearance</legend>
      {THEMES.map((each) => (
        <label key={each}>
          <input type="radio" name="theme" checked={theme === each} onChange={() => choose(each)} />
          <span>{each}</span>
        </label>
      ))}
    </fieldset>
  );
}
