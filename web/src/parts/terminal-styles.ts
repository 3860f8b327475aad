/**
 * Lets xterm.js draw under a policy without inline styles.
 *
 * It writes `<style>` elements and `style` attributes, which the policy refuses. The same rules as constructed style
 * sheets, and the same attributes through the object model, are no inline styles.
 */

/** Diverts them while a terminal is open; returns how to stop. */
export function divertStyles(): () => void {
  const sheets: CSSStyleSheet[] = [];
  const create = Document.prototype.createElement;
  document.createElement = function (this: Document, name: string, options?: ElementCreationOptions) {
    if (name === "style") return sheetElement(create.call(document, "span"), sheets);
    const element = create.call(document, name, options);
    return name === "span" ? withStyleAttribute(element) : element;
  } as typeof document.createElement;
  return () => {
    document.createElement = create;
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => !sheets.includes(each));
  };
}

function sheetElement(place: HTMLElement, sheets: CSSStyleSheet[]): HTMLElement {
  const sheet = new CSSStyleSheet();
  sheets.push(sheet);
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(place, "textContent", { set: (text: string) => void sheet.replaceSync(text) });
  place.hidden = true;
  return place;
}

function withStyleAttribute(element: HTMLElement): HTMLElement {
  const set = element.setAttribute.bind(element);
  element.setAttribute = (name, value) => {
    if (name === "style") element.style.cssText = value;
    else set(name, value);
  };
  return element;
}
