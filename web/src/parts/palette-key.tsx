/** Opens the command palette by Ctrl-K or ⌘K, or by its button. The palette itself loads when it is first wanted. */

import { lazy, Suspense, useEffect, useState } from "react";
import { Icon } from "./icons";

const Palette = lazy(() => import("./palette"));

export function PaletteKey() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const wanted =
        event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
      // In a terminal Ctrl-K belongs to the shell.
      if (event.ctrlKey && event.target instanceof Element && event.target.closest(".xterm")) return;
      // Another dialog keeps what was typed into it.
      if (!wanted || (!open && document.querySelector("dialog[open]"))) return;
      event.preventDefault();
      setOpen(!open);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [open]);
  return (
    <>
      <button
        type="button"
        className="button palette-button"
        onClick={() => setOpen(true)}
        aria-keyshortcuts="Control+K Meta+K"
        title="Search everything (Ctrl-K)"
      >
        <Icon name="search" />
        <span className="unseen">Search everything</span>
        <kbd className="top-word">Ctrl K</kbd>
      </button>
      {open && (
        <Suspense fallback={null}>
          <Palette close={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
