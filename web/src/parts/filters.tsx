/** Filters and searches whose value is in the address. */

import { useEffect, useId, useRef, useState } from "react";
import { setQuery, useAddress } from "../routing/router";
import { capital, plain } from "../words/names";
import { Icon } from "./icons";

const SETTLED = 200;

interface FilterProps {
  name: string;
  label: string;
  options: readonly string[];
  /** What is listed as long as nothing is chosen. */
  usual?: string;
}

export function Filter({ name, label, options, usual = "any" }: FilterProps) {
  const id = useId();
  const value = useAddress().query.get(name) ?? "";
  const known = options.includes(value) || value === "" ? options : [...options, value];
  return (
    <div className="filter">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => setQuery({ [name]: event.target.value })}>
        <option value="">{usual}</option>
        {known.map((option) => (
          <option key={option} value={option}>
            {plain(option)}
          </option>
        ))}
      </select>
    </div>
  );
}

/** Something that is left out unless the address says otherwise. */
export function Switch({ name, label, title }: { name: string; label: string; title: string }) {
  const on = useAddress().query.has(name);
  return (
    <label className="switch" title={title}>
      <input type="checkbox" checked={on} onChange={() => setQuery({ [name]: on ? null : "1" })} />
      <span>{label}</span>
    </label>
  );
}

/** A filter that was set by following a link: named, and taken out by a click. */
export function Chosen({ name, label }: { name: string; label: string }) {
  const value = useAddress().query.get(name);
  if (!value) return null;
  return (
    <button type="button" className="button chosen" onClick={() => setQuery({ [name]: null })}>
      <span className="faint">{label}</span> <bdi>{value}</bdi>
      <Icon name="close" />
      <span className="unseen">take this filter out</span>
    </button>
  );
}

/** `/` puts the cursor here, as in many tools. What is typed reaches the address once the typing pauses. */
export function Search({ name, label, placeholder }: { name: string; label: string; placeholder: string }) {
  const given = useAddress().query.get(name) ?? "";
  const [typed, setTyped] = useState(given);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setTyped(given), [given]);
  useEffect(() => {
    if (typed === given) return undefined;
    const timer = setTimeout(() => setQuery({ [name]: typed }), SETTLED);
    return () => clearTimeout(timer);
  }, [typed, given, name]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const elsewhere = event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog");
      if (event.key !== "/" || elsewhere || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <label className="filter filter-search">
      <span className="unseen">{capital(label)}</span>
      <Icon name="search" />
      <input
        ref={field}
        type="search"
        value={typed}
        placeholder={placeholder}
        spellCheck={false}
        onChange={(event) => setTyped(event.target.value)}
      />
    </label>
  );
}
