// The results of the search over all objects.

import { type Instance, type Network, type Node, addressesOf, instanceStatus, nodeStatus } from "../model.ts";
import { parseRange } from "./addresses.ts";
import { href } from "./routes.ts";
import { matches, terms } from "./rows.ts";

export interface Found {
  readonly kind: string;
  readonly name: string;
  readonly about: string;
  readonly link: string;
}

export interface Lists {
  readonly instances: readonly Instance[];
  readonly nodes: readonly Node[];
  readonly networks: readonly Network[];
}

interface AddressRow {
  readonly address: string;
  readonly state: string;
  readonly network: string;
  readonly owner: string;
}

const MOST_OF_A_KIND = 6;
const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i;

/** Whether a text is a whole address, MAC address or CIDR, which the server can be asked about. */
export function looksLikeAddress(text: string): boolean {
  return MAC.test(text) || (!text.includes("-") && parseRange(text) !== null);
}

export function search(text: string, lists: Lists): Found[] {
  const words = terms(text);
  if (!words.length) return [];
  return [
    ...best(
      lists.instances,
      words,
      (row) => ({
        kind: "instance",
        name: row.name,
        about: `${instanceStatus(row.status).word} on ${row.pnode}`,
        link: href(["instances", row.name]),
      }),
      (row) => `${row.name} ${addressesOf(row).join(" ")}`,
    ),
    ...best(
      lists.nodes,
      words,
      (row) => ({
        kind: "node",
        name: row.name,
        about: nodeStatus(row).word,
        link: href(["nodes", row.name]),
      }),
      (row) => `${row.name} ${row.pip}`,
    ),
    ...best(
      lists.networks,
      words,
      (row) => ({
        kind: "network",
        name: row.name,
        about: row.cidrs.join(", "),
        link: href(["networks", row.name]),
      }),
      (row) => `${row.name} ${row.cidrs.join(" ")}`,
    ),
  ];
}

/** The first rows with all words; those whose name begins with the first word come first. */
function best<Row extends { readonly name: string }>(
  rows: readonly Row[],
  words: readonly string[],
  found: (row: Row) => Found,
  text: (row: Row) => string,
): Found[] {
  const start = words[0] ?? "";
  const first: Row[] = [];
  const others: Row[] = [];
  for (const row of rows) {
    if (first.length >= MOST_OF_A_KIND) break;
    if (!matches(text(row).toLowerCase(), words)) continue;
    if (row.name.toLowerCase().startsWith(start)) first.push(row);
    else if (others.length < MOST_OF_A_KIND) others.push(row);
  }
  return [...first, ...others].slice(0, MOST_OF_A_KIND).map(found);
}

/** What the server knows of an address, and the link to all of it. */
export function addressResults(text: string, rows: readonly AddressRow[], failure = ""): Found[] {
  const link = href(["addresses"], { of: text });
  const facts = rows.map((row) => ({
    kind: "address",
    name: row.address,
    about: [row.state, row.owner && `by ${row.owner}`, row.network && `in ${row.network}`].filter(Boolean).join(" "),
    link: row.network && !row.address.includes("-") ? href(["networks", row.network], { address: row.address }) : link,
  }));
  return [...facts, { kind: "address", name: text, about: failure || "Who has it, and who had it", link }];
}
