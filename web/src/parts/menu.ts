import { type RefObject, useEffect, useRef } from "react";

/** For a menu made of `details`: it closes at a click beside it, and at Escape. */
export function useMenu(): RefObject<HTMLDetailsElement | null> {
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const elsewhere = (event: Event) => {
      const inside = event.target instanceof Node && menu.current?.contains(event.target);
      const escaped = event instanceof KeyboardEvent && event.key === "Escape";
      if (menu.current && (escaped || (event.type === "pointerdown" && !inside))) menu.current.open = false;
    };
    addEventListener("pointerdown", elsewhere);
    addEventListener("keydown", elsewhere);
    return () => {
      removeEventListener("pointerdown", elsewhere);
      removeEventListener("keydown", elsewhere);
    };
  }, []);
  return menu;
}
