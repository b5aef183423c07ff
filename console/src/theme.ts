// Dark and light: as the system has it, or as the person chose.

import { effect, signal } from "@preact/signals";
import { keep, kept } from "./kept.ts";

export type Theme = "system" | "light" | "dark";

function chosen(): Theme {
  const text = kept("theme");
  return text === "light" || text === "dark" ? text : "system";
}

export const theme = signal<Theme>(chosen());

export function followTheme(): void {
  effect(() => {
    keep("theme", theme.value);
    if (theme.value === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme.value;
  });
}
