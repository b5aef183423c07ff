// Dark and light: as the system has it, or as the person chose.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEPT = "gantry-console-theme";

function kept(): Theme {
  const text = localStorage.getItem(KEPT);
  return text === "light" || text === "dark" ? text : "system";
}

export const theme = signal<Theme>(kept());

export function followTheme(): void {
  effect(() => {
    localStorage.setItem(KEPT, theme.value);
    if (theme.value === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme.value;
  });
}
