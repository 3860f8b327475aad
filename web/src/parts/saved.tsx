/** Saved filters of a list: choose one, keep the present ones under a name, share them by their address. */

import { type FormEvent, useEffect, useState } from "react";
import { filtered, forget, named, save, type Saved, saved, VIEW } from "../live/saved-filters";
import { Link, navigate, useAddress } from "../routing/router";
import { Copy } from "./copy";
import { Icon } from "./icons";
import { useMenu } from "./menu";

export function SavedFilters() {
  const { path, query } = useAddress();
  const [list, setList] = useState<readonly Saved[]>(() => saved(path));
  const menu = useMenu();
  const view = query.get(VIEW) ?? "";
  const [name, setName] = useState(view);
  useEffect(() => setName(view), [view]);
  const keep = (event: FormEvent) => {
    event.preventDefault();
    const made = save(path, query, name.trim());
    setList(saved(path));
    navigate(made.href, "replace");
  };
  const drop = (each: Saved) => {
    forget(each);
    setList(saved(path));
  };
  return (
    <details className="saved" ref={menu} data-testid="saved-filters">
      <summary className="button">
        <span>{view ? <bdi>{view}</bdi> : "Filters"}</span>
        <Icon name="down" />
      </summary>
      <div className="saved-menu card">
        {list.length === 0 && !filtered(query) && <p className="faint">Set filters, then save them here.</p>}
        {list.length > 0 && (
          <ul aria-label="Saved filters">
            {list.map((each) => (
              <li key={each.href}>
                <Link href={each.href} onClick={() => menu.current && (menu.current.open = false)}>
                  <bdi>{each.name}</bdi>
                </Link>
                <button
                  type="button"
                  className="button button-quiet"
                  aria-label={`Delete the filters ${each.name}`}
                  onClick={() => drop(each)}
                >
                  <Icon name="close" />
                </button>
              </li>
            ))}
          </ul>
        )}
        {filtered(query) && (
          <form onSubmit={keep} className="saved-form">
            <input
              aria-label="Name of these filters"
              placeholder="name"
              required
              maxLength={60}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
            <button type="submit" className="button" disabled={name.trim() === ""}>
              Save
            </button>
            <Copy text={() => location.origin + named(path, query, name.trim() || view || "shared")}>Copy link</Copy>
          </form>
        )}
      </div>
    </details>
  );
}
