// The address of a page is the part after "#": "/instances/web1", or "/instances?q=web&sort=-memory".

export interface Route {
  readonly parts: readonly string[];
  readonly query: ReadonlyMap<string, string>;
}

export function parse(hash: string): Route {
  const text = hash.replace(/^#/, "");
  const [path = "", query = ""] = text.split(/\?(.*)/s, 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new Map(new URLSearchParams(query)) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The link to a page; query arguments that are empty are left out. */
export function href(parts: readonly (string | number)[], query: Readonly<Record<string, string>> = {}): string {
  const path = parts.map((part) => encodeURIComponent(String(part))).join("/");
  const given = Object.entries(query).filter(([, text]) => text !== "");
  const suffix = given.length ? `?${new URLSearchParams(given)}` : "";
  return `#/${path}${suffix}`;
}

/** The pages with the form for a new object. They are apart from the pages of objects: "new" can be a name. */
export const NEW_INSTANCE = "new-instance";
export const NEW_NETWORK = "new-network";

/** The first part of the address of the page that a page belongs to. */
export function placeOf({ parts: [place = ""] }: Route): string {
  if (place === NEW_INSTANCE) return "instances";
  return place === NEW_NETWORK ? "networks" : place;
}

/** The kinds of objects with a page of their own, and the first part of its address. */
const PLACES: Readonly<Record<string, string>> = {
  instance: "instances",
  node: "nodes",
  network: "networks",
  job: "jobs",
};

/** The link to an object, or null if its kind has no page. */
export function objectHref(kind: string, name: string): string | null {
  if (kind === "group") return href(["nodes"], { group: name });
  const place = PLACES[kind];
  return place ? href([place, name]) : null;
}
