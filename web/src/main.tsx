import { createRoot } from "react-dom/client";
import { App } from "./app";
import { Boundary } from "./parts/boundary";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/charts.css";
import "./styles/tables.css";
import "./styles/forms.css";
import "./styles/pages.css";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <Boundary>
      <App />
    </Boundary>,
  );
}
