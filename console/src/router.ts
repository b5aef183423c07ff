// The present page, from the address; links are plain links to other addresses.

import { signal } from "@preact/signals";
import { type Route, href, parse } from "./logic/routes.ts";

let known = location.hash; // the address that the route is of

export const route = signal<Route>(parse(known));

function follow(): void {
  known = location.hash;
  route.value = parse(known);
}

addEventListener("hashchange", follow);

export function go(target: string): void {
  location.hash = target;
}

/**
 * Change query arguments of the present page, without a new entry in the browser's history. Nothing changes if the address
 * is another one already: a person has followed a link, and the browser has not said so yet.
 */
export function replaceQuery(changes: Readonly<Record<string, string>>): void {
  if (location.hash !== known) return;
  const { parts, query } = route.peek();
  const target = href(parts, { ...Object.fromEntries(query), ...changes });
  if (target === known) return;
  history.replaceState(null, "", target);
  follow();
}
