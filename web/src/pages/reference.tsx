/** The API's reference, drawn from the server's own OpenAPI document. Every route has its own address: /api#nodes_listed. */

import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { get } from "../api/client";
import { Copy } from "../parts/copy";
import { Search } from "../parts/filters";
import { Empty, Loading, Trouble } from "../parts/states";
import { Prose } from "../parts/words";
import {
  type Content,
  curl,
  type Document,
  exampleOf,
  found,
  inner,
  type Route,
  routesOf,
  type Schema,
  typeOf,
} from "../reference/document";
import { useAddress } from "../routing/router";
import { capital, counted } from "../words/names";
import "../styles/reference.css";

const TONES: Record<string, string> = { GET: "active", POST: "success", PUT: "warning", DELETE: "danger" };

export default function Reference() {
  const [document, setDocument] = useState<Document | null>(null);
  const [trouble, setTrouble] = useState<Error | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const ending = new AbortController();
    get<Document>("/openapi.json", undefined, ending.signal).then(setDocument, (error: unknown) => {
      if (!ending.signal.aborted) setTrouble(error as Error);
    });
    return () => ending.abort();
  }, [tries]);
  if (document) return <Routes document={document} />;
  const again = () => {
    setTrouble(null);
    setTries(tries + 1);
  };
  return trouble ? <Trouble error={trouble} retry={again} /> : <Loading rows={8} />;
}

function Routes({ document }: { document: Document }) {
  const asked = useAddress().query.get("q") ?? "";
  const routes = useMemo(() => routesOf(document), [document]);
  const shown = useMemo(() => found(routes, document, asked), [routes, document, asked]);
  const tags = [...new Set(shown.map((route) => route.tag))];
  const hash = useHash();
  return (
    <div className="reference">
      <header className="page-head">
        <h1>
          API <span className="faint figures">{counted(shown.length, "route")}</span>
        </h1>
        <div className="filters" role="search">
          <Search name="q" label="Search the API" placeholder="path, word, field" />
          <a className="button" href="/api/v1/openapi.json" download>
            openapi.json
          </a>
        </div>
      </header>
      <p className="reference-intro">
        Send a token with each request: <code>Authorization: Bearer muster_…</code>. Bodies are JSON. A refusal is a
        problem (RFC 9457) whose <code>code</code> is explained at <a href="/codes">/codes</a>.
      </p>
      {tags.length === 0 && <Empty title="No route fits these words" />}
      <div className="reference-columns">
        <nav aria-label="Groups" className="reference-groups">
          {tags.map((tag) => (
            <a key={tag} href={`#${tag}`}>
              {capital(tag)}
            </a>
          ))}
        </nav>
        <div className="reference-routes">
          {tags.map((tag) => (
            <section key={tag} id={tag} aria-labelledby={`${tag}-title`}>
              <h2 id={`${tag}-title`}>{capital(tag)}</h2>
              {shown
                .filter((route) => route.tag === tag)
                .map((route) => (
                  <RouteCard key={route.id} route={route} document={document} wanted={hash === route.id} />
                ))}
            </section>
          ))}
        </div>
      </div>
    </div>
  );
}

function useHash(): string {
  const now = () => location.hash.slice(1);
  const [hash, setHash] = useState(now);
  useEffect(() => {
    const moved = () => setHash(now());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => window.document.getElementById(hash)?.scrollIntoView(), [hash]);
  return hash;
}

function RouteCard({ route, document, wanted }: { route: Route; document: Document; wanted: boolean }) {
  const [open, setOpen] = useState(wanted);
  const card = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (wanted) setOpen(true);
  }, [wanted]);
  const toggled = () => {
    const now = card.current?.open ?? false;
    setOpen(now);
    if (now) history.replaceState(null, "", `#${route.id}`);
  };
  return (
    <details className="card route" id={route.id} data-testid="route" ref={card} open={open} onToggle={toggled}>
      <summary>
        <span className={`route-method mono tone-${TONES[route.method] ?? "neutral"}`}>{route.method}</span>
        <span className="route-path mono name">{route.path}</span>
        <span className="route-access faint">{route.access}</span>
        <span className="route-summary">{route.summary}</span>
      </summary>
      {open && <RouteBody route={route} document={document} />}
    </details>
  );
}

function RouteBody({ route, document }: { route: Route; document: Document }) {
  const line = curl(document, route, location.origin);
  return (
    <div className="route-body">
      {route.words && (
        <div className="route-words">
          {route.words.split(/\n\s*\n/).map((paragraph) => (
            <p key={paragraph}>
              <Prose>{paragraph}</Prose>
            </p>
          ))}
        </div>
      )}
      {route.parameters.length > 0 && (
        <Part title="Parameters">
          <Fields
            document={document}
            asked
            fields={route.parameters.map((each) => ({
              name: each.name,
              note: each.in,
              required: each.required ?? false,
              schema: { ...each.schema, ...(each.description && { description: each.description }) },
            }))}
          />
        </Part>
      )}
      {route.body && <ContentPart title="Body" content={route.body} document={document} asked />}
      {route.answer && <ContentPart title={`Answer ${route.status}`} content={route.answer} document={document} />}
      <Part title="Try it" side={<Copy text={() => line} label="Copy the curl command" />}>
        <pre className="route-code" tabIndex={0}>
          {line}
        </pre>
      </Part>
    </div>
  );
}

function Part({ title, side, children }: { title: string; side?: ReactNode; children: ReactNode }) {
  return (
    <section>
      <header className="route-part">
        <h3>{title}</h3>
        {side}
      </header>
      {children}
    </section>
  );
}

interface ContentProps {
  title: string;
  content: Content;
  document: Document;
  /** Of what is sent, one wants to know which fields must be there. Answers have all of theirs. */
  asked?: boolean;
}

function ContentPart({ title, content, document, asked = false }: ContentProps) {
  const shape = content.schema && inner(document, content.schema);
  const example = exampleOf(document, content);
  return (
    <Part title={title} side={<span className="faint mono">{content.mediaType}</span>}>
      {shape && <Shape shape={shape} document={document} asked={asked} />}
      {example && (
        <pre className="route-code" tabIndex={0}>
          {example}
        </pre>
      )}
    </Part>
  );
}

function Shape({ shape, document, asked }: { shape: Schema; document: Document; asked: boolean }) {
  const required = new Set(asked ? shape.required : []);
  const fields = Object.entries(shape.properties ?? {});
  return (
    <>
      {shape.description && (
        <p className="faint">
          <Prose>{shape.description}</Prose>
        </p>
      )}
      <Fields
        document={document}
        fields={fields.map(([name, schema]) => ({ name, schema, required: required.has(name) }))}
        asked={asked}
      />
    </>
  );
}

interface Field {
  name: string;
  schema: Schema;
  required: boolean;
  note?: string;
}

function Fields({ fields, document, asked }: { fields: readonly Field[]; document: Document; asked: boolean }) {
  return (
    <dl className="fields">
      {fields.map((field) => (
        <div key={field.name}>
          <dt>
            <span className="mono name">{field.name}</span>
            {field.required && <span className="faint"> required</span>}
          </dt>
          <dd>
            <span className="field-type">{typeOf(document, field.schema)}</span>
            <span className="faint">
              {field.note && ` · ${field.note}`}
              {asked && telling(field.schema.default) && ` · default ${JSON.stringify(field.schema.default)}`}
            </span>
            {field.schema.description && (
              <p className="faint">
                <Prose>{field.schema.description}</Prose>
              </p>
            )}
            <Nested schema={field.schema} document={document} asked={asked} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const telling = (value: unknown) => value !== undefined && value !== null && JSON.stringify(value) !== "[]";

/** The fields of what a field holds, drawn only when they are asked for: shapes may hold themselves. */
function Nested({ schema, document, asked }: { schema: Schema; document: Document; asked: boolean }) {
  const [open, setOpen] = useState(false);
  const shape = inner(document, schema);
  if (!shape) return null;
  return (
    <details className="nested" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="faint">Fields</summary>
      {open && <Shape shape={shape} document={document} asked={asked} />}
    </details>
  );
}
