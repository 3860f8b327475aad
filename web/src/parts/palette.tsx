/** The command palette: type a few letters of anything, go there. A combobox, as screen readers know them. */

import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { get } from "../api/client";
import type { Cluster, Job, Node, Operation, Page, Template } from "../api/types";
import { everything, type Found, type Known, NOTHING, ofOperation, ranked, searches } from "../live/finding";
import { navigate } from "../routing/router";
import { counted } from "../words/names";
import { useMay } from "./act";
import { Modal } from "./dialog";

const SETTLED = 200;

/** Read when it opens. What can't be read is left out: the searches at the end still find it. */
function useKnown(): Known {
  const [known, setKnown] = useState<Known>(NOTHING);
  useEffect(() => {
    const stop = new AbortController();
    const read = async <T,>(name: keyof Known, path: string) => {
      try {
        const { items } = await get<{ items: T[] }>(path, undefined, stop.signal);
        setKnown((had) => ({ ...had, [name]: items }));
      } catch {
        // As said above.
      }
    };
    void read<Template>("templates", "/templates");
    void read<Operation>("operations", "/operations?limit=200");
    void read<Node>("nodes", "/nodes?limit=500");
    void read<Cluster>("clusters", "/clusters");
    void read<Job>("jobs", "/jobs?limit=200");
    return () => stop.abort();
  }, []);
  return known;
}

/** Operations of exactly this run, however old. */
function useRun(text: string): Found[] {
  const [answer, setAnswer] = useState<{ run: string; items: Found[] }>({ run: "", items: [] });
  const run = text.trim();
  useEffect(() => {
    if (run === "") return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<Page<Operation>>("/operations", { run, limit: 5 }, stop.signal).then(
        ({ items }) => setAnswer({ run, items: items.map(ofOperation) }),
        () => undefined,
      );
    }, SETTLED);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [run]);
  return answer.run === run ? answer.items : [];
}

export default function Palette({ close }: { close: () => void }) {
  const operator = useMay("operator");
  const known = useKnown();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const box = useRef<HTMLUListElement>(null);
  const older = useRun(text);
  const items = useMemo(() => {
    const near = ranked(everything(known, operator), text);
    const keys = new Set(near.map((each) => each.key));
    return [...near, ...[...older, ...searches(text)].filter((each) => !keys.has(each.key))];
  }, [known, operator, text, older]);
  const chosen = Math.min(at, items.length - 1);
  useEffect(() => {
    box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen, items]);

  const go = (item: Found | undefined) => {
    if (!item) return;
    close();
    navigate(item.href);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((chosen + step + items.length) % Math.max(1, items.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(items[chosen]);
    }
  };
  return (
    <Modal title="Go to" close={close}>
      <div className="palette" data-testid="palette">
        <input
          data-focus
          role="combobox"
          aria-label="Search everything"
          aria-expanded="true"
          aria-controls={list}
          aria-autocomplete="list"
          aria-activedescendant={items.length > 0 ? `${list}-${chosen}` : undefined}
          placeholder="id, run or name"
          spellCheck={false}
          autoComplete="off"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={pressed}
        />
        <ul id={list} role="listbox" aria-label="Found" ref={box}>
          {items.map((item, index) => (
            <li
              key={item.key}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === chosen}
              onPointerMove={() => setAt(index)}
              onClick={() => go(item)}
            >
              <span className="palette-kind">{item.kind}</span>
              <bdi className="palette-title">{item.title}</bdi>
              <bdi className="palette-note faint">{item.note}</bdi>
            </li>
          ))}
        </ul>
        <p className="unseen" role="status">
          {counted(items.length, "result")}
        </p>
        <p className="palette-keys faint" aria-hidden="true">
          ↑↓ to choose · Enter to go · Esc to close
        </p>
      </div>
    </Modal>
  );
}
