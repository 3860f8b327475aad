/** A terminal on a node: xterm.js over the node's own connection. Loaded when it is opened. */

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import "../styles/terminal.css";
import { useEffect, useRef, useState } from "react";
import { post } from "../api/client";
import type { Command } from "../api/types";
import { type Ended, TerminalLink } from "../live/terminal";
import { divertStyles } from "./terminal-styles";

const SHELL = ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh -i"];

export default function NodeTerminal({ nodeId, close }: { nodeId: string; close: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  const out = useRef<HTMLButtonElement>(null);
  const [told, tell] = useState("Connecting …");
  useEffect(() => {
    if (place.current === null) return undefined;
    return opened(place.current, nodeId, tell, () => out.current?.focus());
  }, [nodeId]);
  return (
    <section className="terminal-panel" role="dialog" aria-label={`Terminal on ${nodeId}`} data-testid="terminal">
      <header className="terminal-head">
        <h2 title={nodeId}>
          Terminal on <bdi className="mono">{nodeId}</bdi>
        </h2>
        <span className="terminal-told" role="status">
          {told}
        </span>
        <span className="terminal-keys wide">
          <kbd>Shift</kbd> <kbd>Esc</kbd> leaves it by the keyboard
        </span>
        <button type="button" className="button" ref={out} onClick={close} title="Close it, and end its shell">
          Close
        </button>
      </header>
      <div className="terminal-place" ref={place} />
    </section>
  );
}

/** Starts a shell and shows it; returns how to end both. */
function opened(place: HTMLElement, nodeId: string, tell: (text: string) => void, leave: () => void): () => void {
  const restore = divertStyles();
  const terminal = new Terminal({ cursorBlink: true, fontSize: 13, screenReaderMode: true });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(place);
  fit.fit();
  terminal.focus();
  let link: TerminalLink | null = null;
  let gone = false;
  const watch = new ResizeObserver(() => fit.fit());
  watch.observe(place);
  // Tab is the shell's: without this, who has no mouse could not get out.
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "Escape" || !event.shiftKey) return true;
    if (event.type === "keydown") leave();
    return false;
  });
  terminal.onResize(({ rows, cols }) => link?.resized(rows, cols));
  const encoder = new TextEncoder();
  terminal.onData((data) => link?.typed(encoder.encode(data)));
  terminal.onBinary((data) => link?.typed(Uint8Array.from(data, (sign) => sign.charCodeAt(0))));
  const started = start(nodeId, terminal.rows, terminal.cols);
  started.then(
    (command) => {
      if (gone) return;
      link = follow(command.id, terminal, tell);
    },
    (error: unknown) => tell((error as Error).message),
  );
  return () => {
    gone = true;
    link?.leave();
    if (link === null) void started.then((command) => post(`/commands/${command.id}/cancel`)).catch(() => undefined);
    watch.disconnect();
    terminal.dispose();
    restore();
  };
}

async function start(nodeId: string, rows: number, cols: number): Promise<Command> {
  const execution = { argv: SHELL, env: { TERM: "xterm-256color" }, terminal: { rows, cols } };
  const made = await post<{ items: Command[] }>("/commands", { node_id: nodeId, execution });
  const [command] = made.items;
  if (command === undefined) throw new Error("the server started nothing");
  return command;
}

function follow(commandId: string, terminal: Terminal, tell: (text: string) => void): TerminalLink {
  const link = new TerminalLink(commandId, {
    shown: (data, taken) => terminal.write(data, taken),
    waiting: (who) => tell(who === null ? "Connected" : `The ${who} does not answer; waiting for it`),
    exited: (code) => tell(`Ended with exit code ${code}`),
    ended: (ended) => tell(words(ended)),
  });
  link.resized(terminal.rows, terminal.cols);
  return link;
}

function words({ why, detail, status }: Ended): string {
  if (why === "exited" && status !== undefined) return `Ended with exit code ${status}`;
  return `Ended: ${detail || why}`;
}
