/** The last net: a bug in one page shows itself with a way out, instead of an empty window. */

import { Component, type ReactNode } from "react";

export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <main className="page">
        <section className="not-found">
          <h1>This page broke</h1>
          <p>That is a bug in Muster's page; the server goes on. Please report it with this line:</p>
          <pre>{String(error)}</pre>
          <p>
            <a className="button" href="/">
              To the overview
            </a>
          </p>
        </section>
      </main>
    );
  }
}
