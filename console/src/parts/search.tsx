// Search with "/": instances, nodes, networks by name, and addresses by who has them.

import { useEffect, useRef, useState } from "preact/hooks";
import { explanation, request } from "../api.ts";
import { type Found, addressResults, looksLikeAddress, search } from "../logic/search.ts";
import { plural } from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { go } from "../router.ts";
import { instances, networks, nodes } from "../store.ts";
import type { AddressRow } from "./addressfacts.tsx";

const SETTLE_MILLISECONDS = 200; // after the last key an address is looked up

export function Search() {
  const [text, setText] = useState("");
  const [isOpen, setOpen] = useState(false);
  const [index, setIndex] = useState(0);
  const [known, setKnown] = useState<readonly Found[]>([]);
  const box = useRef<HTMLInputElement>(null);

  useEffect(() => {
    setKnown([]);
    const of = text.trim();
    if (!looksLikeAddress(of)) return;
    let isCurrent = true;
    const timer = setTimeout(async () => {
      try {
        const path = `/2/addresses?${new URLSearchParams({ of, limit: "8" })}`;
        const { rows } = await request<{ rows: readonly AddressRow[] }>("GET", path);
        if (isCurrent) setKnown(addressResults(of, rows));
      } catch (error) {
        if (isCurrent) setKnown(addressResults(of, [], explanation(error)));
      }
    }, SETTLE_MILLISECONDS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [text]);

  const lists = { instances: instances.rows.value, nodes: nodes.rows.value, networks: networks.rows.value };
  const found = isOpen && text.trim() ? [...known, ...search(text, lists)] : [];
  const current = Math.min(index, found.length - 1);

  function open(result: Found): void {
    go(result.link);
    setOpen(false);
    setText("");
    box.current?.blur();
  }

  function onKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      setOpen(false);
      box.current?.blur();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setIndex(Math.max(0, Math.min(found.length - 1, current + step)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      const of = text.trim();
      if (found[current]) open(found[current]);
      // The page of the address says the rest, also if the key was quicker than the answer.
      else if (looksLikeAddress(of)) open({ kind: "address", name: of, about: "", link: href(["addresses"], { of }) });
    }
  }

  return (
    <div class="search" role="search">
      <input
        ref={box}
        id="search"
        type="search"
        role="combobox"
        list={undefined}
        aria-label="Search instances, nodes, networks and addresses"
        aria-expanded={found.length > 0}
        aria-controls="search-results"
        aria-autocomplete="list"
        aria-activedescendant={found.length ? `search-${current}` : undefined}
        placeholder="Search  /"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onFocus={() => {
          setOpen(true);
          for (const list of [instances, nodes, networks]) void list.load();
        }}
        onBlur={() => setOpen(false)}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setIndex(0);
          setOpen(true);
        }}
        onKeyDown={onKey}
      />
      <span class="unseen" role="status">
        {isOpen && text.trim() ? plural(found.length, "result") : ""}
      </span>
      <ul id="search-results" role="listbox" aria-label="Results" hidden={!isOpen || !text.trim()}>
        {found.map((result, i) => (
          <li
            key={`${result.kind} ${result.name} ${result.about}`}
            id={`search-${i}`}
            role="option"
            aria-selected={i === current}
            onMouseDown={(event) => {
              event.preventDefault();
              open(result);
            }}
          >
            <span class="kind">{result.kind}</span>
            <span class="what">{result.name}</span>
            <span class="none">{result.about}</span>
          </li>
        ))}
        {found.length === 0 && (
          <li role="option" aria-selected={false} aria-disabled={true} class="none">
            Nothing has this name or address.
          </li>
        )}
      </ul>
    </div>
  );
}
