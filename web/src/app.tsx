/** The frame around every page: who is signed in, where one is, whether the connection holds. */

import { lazy, Suspense, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { passing } from "./api/client";
import { may, session } from "./api/session";
import { resume, watchToken } from "./api/signing-in";
import { feed } from "./live/feed";
import { pauseAfter } from "./live/pausing";
import { forgetAll } from "./live/resource";
import { Loading, NotFound, Trouble } from "./parts/states";
import { ConnectionLost, Header } from "./parts/header";
import { Logo } from "./parts/logo";
import { ClusterPage, Clusters } from "./pages/clusters";
import { DevicePage } from "./pages/device";
import { Entrance } from "./pages/entrance";
import { Events } from "./pages/events";
import { NodePage } from "./pages/node";
import { Nodes } from "./pages/nodes";
import { OperationPage } from "./pages/operation";
import { Operations } from "./pages/operations";
import { OverviewPage } from "./pages/overview";
import { ProvisionDialog } from "./pages/provision";
import { TemplatePage } from "./pages/template";
import { Templates } from "./pages/templates";
import { Link, matched, useAddress } from "./routing/router";
import { capital, short } from "./words/names";

const Reference = lazy(() => import("./pages/reference"));
const Jobs = lazy(async () => ({ default: (await import("./pages/jobs")).Jobs }));
const JobPage = lazy(async () => ({ default: (await import("./pages/jobs")).JobPage }));
const Wallboard = lazy(async () => ({ default: (await import("./pages/wallboard")).Wallboard }));

export function App() {
  const { path } = useAddress();
  const { token, who } = useSyncExternalStore(session.subscribe, session.get);
  const [trouble, setTrouble] = useState<Error | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (token === null || who !== null) return undefined;
    let timer = 0;
    let over = false;
    resume().catch((error: unknown) => {
      if (over) return;
      setTrouble(error as Error);
      if (passing(error)) timer = window.setTimeout(() => setTries(tries + 1), pauseAfter(tries));
    });
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [token, who, tries]);
  const known = who !== null;
  useEffect(() => {
    if (!known) return undefined;
    feed.start();
    return () => {
      feed.stop();
      forgetAll(); // nothing that one token could see is left for the next
    };
  }, [token, known]);
  useEffect(() => (who === null ? undefined : watchToken(who, feed.subscribe)), [who]);

  if (token === null) return matched("/api", path) ? <OpenReference /> : <Entrance />;
  if (who === null) {
    return (
      <main className="page">
        {trouble ? <Trouble error={trouble} retry={() => setTries(tries + 1)} /> : <Loading />}
      </main>
    );
  }
  return <Frame operator={may(who, "operator")} />;
}

/** The reference holds nothing of this installation: it needs no token. */
function OpenReference() {
  return (
    <>
      <header className="top">
        <Link href="/" className="top-logo" aria-label="Muster, to the overview">
          <Logo />
        </Link>
        <div className="top-side">
          <Link className="button" href="/">
            Sign in
          </Link>
        </div>
      </header>
      <main className="page">
        <Page path="/api" />
      </main>
    </>
  );
}

function Frame({ operator }: { operator: boolean }) {
  const { path, query } = useAddress();
  const content = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    // A new page begins at its top, for the keyboard and for a screen reader too.
    if (shown.current !== path) content.current?.focus({ preventScroll: true });
    shown.current = path;
  }, [path]);
  if (matched("/wallboard", path)) {
    return (
      <main className="page page-wall">
        <Page path={path} />
      </main>
    );
  }
  return (
    <>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <Header path={path} />
      <ConnectionLost />
      <main id="main" className="page" tabIndex={-1} ref={content}>
        <Page path={path} />
      </main>
      {operator && query.has("provision") && <ProvisionDialog template={query.get("provision") ?? ""} />}
    </>
  );
}

/** Each thing has its own key: what one page had open or typed never shows on the next. */
function Page({ path }: { path: string }) {
  useEffect(() => {
    document.title = titled(path);
  }, [path]);
  if (path === "/") return <OverviewPage />;
  if (matched("/operations", path)) return <Operations />;
  if (matched("/nodes", path)) return <Nodes />;
  if (matched("/templates", path)) return <Templates />;
  if (matched("/clusters", path)) return <Clusters />;
  if (matched("/events", path)) return <Events />;
  if (matched("/device", path)) return <DevicePage />;
  if (matched("/api", path)) {
    return (
      <Suspense fallback={<Loading rows={8} />}>
        <Reference />
      </Suspense>
    );
  }
  if (matched("/wallboard", path)) {
    return (
      <Suspense fallback={<Loading rows={8} />}>
        <Wallboard />
      </Suspense>
    );
  }
  if (matched("/jobs", path)) {
    return (
      <Suspense fallback={<Loading rows={8} />}>
        <Jobs />
      </Suspense>
    );
  }
  const job = matched("/jobs/:id", path)?.["id"];
  if (job) {
    return (
      <Suspense fallback={<Loading rows={8} />}>
        <JobPage key={job} id={job} />
      </Suspense>
    );
  }
  const operation = matched("/operations/:id", path)?.["id"];
  if (operation) return <OperationPage key={operation} id={operation} />;
  const node = matched("/nodes/:id", path)?.["id"];
  if (node) return <NodePage key={node} id={node} />;
  const template = matched("/templates/:name", path)?.["name"];
  if (template) return <TemplatePage key={template} name={template} />;
  const cluster = matched("/clusters/:name", path)?.["name"];
  if (cluster) return <ClusterPage key={cluster} name={cluster} />;
  return <NotFound what="page" id={path} />;
}

/** `Nodes · Muster`, `…t8v5e2 · Nodes · Muster`: what tells tabs apart comes first. */
function titled(path: string): string {
  const [page = "", id = ""] = path.split("/").slice(1);
  if (page === "api") return "API · Muster";
  const thing = matched("/:page/:id", path)?.["id"] ?? id;
  return [thing && short(thing), capital(page), "Muster"].filter(Boolean).join(" · ");
}
