/** Asking for nodes. Says what is warm right now, starts, and lands on the operation's page. */

import { type FormEvent, useEffect, useMemo, useRef, useState } from "react";
import { newKey, post, Refused } from "../api/client";
import type { Operation, Pool, Template } from "../api/types";
import { usePoolsRead } from "../live/pools";
import { useResource } from "../live/resource";
import { Copy } from "../parts/copy";
import { Modal } from "../parts/dialog";
import { Field } from "../parts/field";
import { Shown } from "../parts/states";
import { Badge } from "../parts/words";
import { navigate, setQuery, to } from "../routing/router";
import { counted } from "../words/names";
import { type Asked, provisionCommand } from "../words/command-line";

export function ProvisionDialog({ template }: { template: string }) {
  const templates = useResource<{ items: Template[] }>("/templates");
  const close = () => setQuery({ provision: null, ...Object.fromEntries(RETRIED.map((name) => [name, null])) });
  return (
    <Modal title="Provision nodes" close={close}>
      <Shown read={templates} rows={4}>
        {({ items }) => (
          <Form
            templates={items.filter((each) => each.runtime !== "service" && !each.cluster && !each.retired)}
            wanted={template}
            close={close}
          />
        )}
      </Shown>
    </Modal>
  );
}

const RETRIED = ["count", "run", "class", "usage", "types", "queue"];

/** As the command line: `default`, else the first that isn't paused. */
export function usual(templates: readonly Template[]): string {
  const named = templates.find((each) => each.name === "default" && !each.paused);
  return (named ?? templates.find((each) => !each.paused) ?? templates[0])?.name ?? "";
}

function list(text: string): string[] | undefined {
  const found = text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
  return found.length > 0 ? found : undefined;
}

function Form({ templates, wanted, close }: { templates: readonly Template[]; wanted: string; close: () => void }) {
  const pools = usePoolsRead();
  const [name, setName] = useState(() => (templates.some((each) => each.name === wanted) ? wanted : usual(templates)));
  // A retry comes with what was asked before.
  const [before] = useState(() => new URLSearchParams(location.search));
  const [count, setCount] = useState(before.get("count") ?? "1");
  const key = useMemo(newKey, []);
  const [run, setRun] = useState(before.get("run") ?? `page-${key.slice(-6)}`);
  const [resourceClass, setResourceClass] = useState(before.get("class") ?? "");
  const [usage, setUsage] = useState(before.get("usage") ?? "");
  const [types, setTypes] = useState(before.get("types") ?? "");
  const [queue, setQueue] = useState(before.get("queue") ?? "0");
  const [wrong, setWrong] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const first = useRef<HTMLSelectElement>(null);
  useEffect(() => first.current?.focus(), []);
  const template = templates.find((each) => each.name === name);
  const pool = pools.data?.items.find((each) => each.template === name);
  if (templates.length === 0) {
    return (
      <p>
        There is no template to provision from. Describe one in <code>muster.toml</code>, then run{" "}
        <code>muster apply</code>.
      </p>
    );
  }

  const patience = Number(queue) * 60;
  const patterns = list(types);
  const asked: Asked = {
    template: name,
    count: Number(count),
    run,
    ...(resourceClass && { resource_class: resourceClass }),
    ...(usage && { usage: usage.split("+") }),
    ...(patterns && { instance_types: patterns }),
    ...(patience > 0 && { queue_timeout: patience }),
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setWrong(null);
    try {
      const operation = await post<Operation>(
        "/provisions",
        asked,
        // What is asked is part of its name: after a refusal, a changed form is another request.
        `${key}-${hash([name, count, run, resourceClass, usage, types, queue].join("\n"))}`,
      );
      navigate(to("operations", operation.operation_id));
    } catch (error) {
      setWrong(error as Error);
      setBusy(false);
    }
  };
  const field = wrong instanceof Refused ? wrong.field : undefined;
  const invalid = (name: string) =>
    field === name ? { "aria-invalid": true as const, "aria-describedby": "provision-wrong" } : {};
  return (
    <form className="form" onSubmit={(event) => void submit(event)}>
      <div className="form-row">
        <Field label="Template">
          {(id) => (
            <select
              id={id}
              ref={first}
              value={name}
              onChange={(event) => setName(event.target.value)}
              {...invalid("template")}
            >
              {templates.map((each) => (
                <option key={each.name} value={each.name}>
                  {each.name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Count" className="field-small">
          {(id) => (
            <input
              id={id}
              type="number"
              min={1}
              max={10_000}
              required
              value={count}
              onChange={(event) => setCount(event.target.value)}
              {...invalid("count")}
            />
          )}
        </Field>
      </div>
      {pool && <Warm pool={pool} count={Number(count)} />}
      <Field label="Run" hint="Your own id for this piece of work.">
        {(id) => (
          <input
            id={id}
            value={run}
            required
            spellCheck={false}
            onChange={(event) => setRun(event.target.value)}
            {...invalid("run")}
          />
        )}
      </Field>
      <details>
        <summary>More choices</summary>
        <div className="form">
          <Field label="Class">
            {(id) => (
              <input
                id={id}
                value={resourceClass}
                placeholder={template ? `${template.resource_class}, from the template` : ""}
                onChange={(event) => setResourceClass(event.target.value)}
                {...invalid("resource_class")}
              />
            )}
          </Field>
          <Field label="Usage">
            {(id) => (
              <select id={id} value={usage} onChange={(event) => setUsage(event.target.value)}>
                <option value="">as the template says{template ? ` (${template.usage.join(", ")})` : ""}</option>
                <option value="on-demand">on-demand</option>
                <option value="spot">spot</option>
                <option value="spot+on-demand">spot, else on-demand</option>
              </select>
            )}
          </Field>
          <Field label="Instance type patterns" hint="Separated by commas, as in m6i.*, m7i.*">
            {(id) => (
              <input
                id={id}
                value={types}
                placeholder={template ? `${template.instance_types.join(", ")}, from the template` : ""}
                onChange={(event) => setTypes(event.target.value)}
                {...invalid("instance_types")}
              />
            )}
          </Field>
          <Field label="Wait for room, in minutes">
            {(id) => (
              <input
                id={id}
                type="number"
                min={0}
                max={1440}
                value={queue}
                onChange={(event) => setQueue(event.target.value)}
                {...invalid("queue_timeout")}
              />
            )}
          </Field>
        </div>
      </details>
      <div className="equivalent">
        <code data-testid="equivalent">{provisionCommand(asked)}</code>
        <Copy text={() => provisionCommand(asked)} label="Copy this command" />
      </div>
      {wrong && (
        <p className="form-wrong" role="alert" id="provision-wrong">
          <bdi>{wrong.message}</bdi>
        </p>
      )}
      <div className="modal-acts">
        <button type="button" className="button" onClick={close}>
          Cancel
        </button>
        <button type="submit" className="button button-primary" disabled={busy}>
          {busy ? "Starting …" : "Start"}
        </button>
      </div>
    </form>
  );
}

function Warm({ pool, count }: { pool: Pool; count: number }) {
  const warm = Math.min(pool.idle, count);
  const cold = Math.max(0, count - pool.idle);
  const room = Math.max(0, pool.max_nodes - pool.used);
  if (pool.paused)
    return <Badge tone="warning">{pool.template} is paused: the request waits until it is resumed</Badge>;
  return (
    <p className="warm" data-testid="warm-now" data-idle={pool.idle}>
      <Badge tone={warm > 0 ? "success" : "pending"}>
        {counted(warm, "warm node")}
        {cold > 0 && `, ${cold} to create`}
      </Badge>
      {cold > room && <Badge tone="warning">there is room for {room} more</Badge>}
    </p>
  );
}

function hash(text: string): string {
  let found = 5381;
  for (const letter of text) found = ((found * 33) ^ (letter.codePointAt(0) ?? 0)) >>> 0;
  return found.toString(36);
}
