/** Asking for a cluster: a template, a name, a deadline. Says what will be made, and lands on the operation's page. */

import { type FormEvent, useEffect, useMemo, useRef, useState } from "react";
import { poster, Refused } from "../api/client";
import type { ClusterSpec, Operation, Template } from "../api/types";
import { useResource } from "../live/resource";
import { Modal } from "../parts/dialog";
import { Field } from "../parts/field";
import { Shown } from "../parts/states";
import { navigate, setQuery, to } from "../routing/router";
import { counted } from "../words/names";

const NAME_MOST = 63;
const NAME = /^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$/i;

/** What Azure would refuse, said before it is asked; empty: nothing. */
export function wrongName(name: string): string {
  if (name === "") return "";
  if (name.length > NAME_MOST) return `At most ${NAME_MOST} characters: this has ${name.length}.`;
  if (NAME.test(name)) return "";
  return "Letters, digits, hyphens and underscores only; it begins and ends with a letter or digit.";
}

export function CreateClusterDialog({ name, template }: { name: string; template: string }) {
  const templates = useResource<{ items: Template[] }>("/templates");
  const close = () => setQuery({ create: null, name: null, template: null });
  return (
    <Modal title="Create a cluster" close={close}>
      <Shown read={templates} rows={4}>
        {({ items }) => (
          <Form
            templates={items.filter((each) => each.cluster && !each.retired)}
            wanted={template}
            called={name}
            close={close}
          />
        )}
      </Shown>
    </Modal>
  );
}

interface FormProps {
  templates: readonly Template[];
  wanted: string;
  called: string;
  close: () => void;
}

function Form({ templates, wanted, called, close }: FormProps) {
  const [template, setTemplate] = useState(() =>
    templates.some((each) => each.name === wanted) ? wanted : (templates[0]?.name ?? ""),
  );
  const [name, setName] = useState(called);
  const [minutes, setMinutes] = useState("");
  const [wrong, setWrong] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []);
  // What is asked has its own key: a repeat into the dark is the same request, a changed form another one.
  const send = useMemo(() => {
    const timeout = Number(minutes) * 60;
    return poster<Operation>("/clusters", { template, name, ...(timeout > 0 && { timeout }) });
  }, [template, name, minutes]);
  if (templates.length === 0) {
    return (
      <p>
        No template makes clusters. Describe one with <code>provider = "aks"</code> in <code>muster.toml</code>, then
        run <code>muster apply</code>.
      </p>
    );
  }
  const misnamed = wrongName(name);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (misnamed || busy) return;
    setBusy(true);
    setWrong(null);
    try {
      const operation = await send();
      navigate(to("operations", operation.operation_id));
    } catch (error) {
      setWrong(error as Error);
      setBusy(false);
    }
  };
  const field = wrong instanceof Refused ? wrong.field : undefined;
  const invalid = (which: string, own = "") =>
    own || field === which
      ? { "aria-invalid": true as const, "aria-describedby": own ? "cluster-misnamed" : "cluster-wrong" }
      : {};
  const spec = templates.find((each) => each.name === template)?.cluster;
  return (
    <form className="form" onSubmit={(event) => void submit(event)} aria-label="Create a cluster">
      <Field label="Name" hint="The cluster is called so in Azure too.">
        {(id) => (
          <input
            id={id}
            ref={first}
            value={name}
            required
            spellCheck={false}
            autoComplete="off"
            onChange={(event) => setName(event.target.value.trim())}
            {...invalid("name", misnamed)}
          />
        )}
      </Field>
      {misnamed && (
        <p className="form-wrong" role="alert" id="cluster-misnamed">
          {misnamed}
        </p>
      )}
      <div className="form-row">
        <Field label="Template">
          {(id) => (
            <select
              id={id}
              value={template}
              onChange={(event) => setTemplate(event.target.value)}
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
        <Field label="Deadline, in minutes">
          {(id) => (
            <input
              id={id}
              type="number"
              min={1}
              max={1440}
              placeholder="as the template says"
              value={minutes}
              onChange={(event) => setMinutes(event.target.value)}
              {...invalid("timeout")}
            />
          )}
        </Field>
      </div>
      {spec && <WillBe spec={spec} />}
      {wrong && (
        <p className="form-wrong" role="alert" id="cluster-wrong">
          <bdi>{wrong.message}</bdi>
        </p>
      )}
      <div className="modal-acts">
        <button type="button" className="button" onClick={close}>
          Cancel
        </button>
        <button type="submit" className="button button-primary" disabled={busy || misnamed !== ""}>
          {busy ? "Asking …" : "Create"}
        </button>
      </div>
    </form>
  );
}

function WillBe({ spec }: { spec: ClusterSpec }) {
  return (
    <div className="faint" data-testid="will-be">
      <p>
        <bdi>{[spec.region, spec.resource_group].filter(Boolean).join(" · ")}</bdi>
      </p>
      <ul>
        {spec.pools.map((pool) => (
          <li key={pool.name}>
            <bdi>{pool.name}</bdi> · {counted(pool.count ?? 1, "node")} · <bdi>{pool.vm_size}</bdi>
          </li>
        ))}
      </ul>
    </div>
  );
}
