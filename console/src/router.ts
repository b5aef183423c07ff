// The present page, from the address; links are plain links to other addresses.

import { signal } from "@preact/signals";
import { type Route, href, parse } from "./logic/routes.ts";

export const route = signal<Route>(parse(location.hash));

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

export function go(target: string): void {
  location.hash = target;
}

/** Change query arguments of the present page, without a new entry in the browser's history. */
export function replaceQuery(changes: Readonly<Record<string, string>>): void {
  const { parts, query } = route.peek();
  const target = href(parts, { ...Object.fromEntries(query), ...changes });
  if (target === location.hash) return;
  history.replaceState(null, "", target);
  route.value = parse(target);
}
