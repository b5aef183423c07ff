// What pages of one object use: the object, read again whenever an event says that it changed.

import { effect } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { explanation, query, request } from "../api.ts";
import { hasBegun } from "../events.ts";
import { version } from "../store.ts";

export interface Reading<Answer> {
  readonly value: Answer | undefined; // undefined until the first answer
  readonly failure: string;
}

/** Read something, and again after each change of an object; the value stays while it is read again. */
export function useReading<Answer>(
  read: () => Promise<Answer>,
  depends: readonly unknown[],
  watched: readonly (readonly [kind: string, key: string])[] = [],
): Reading<Answer> {
  const [state, setState] = useState<{ depends: readonly unknown[]; reading: Reading<Answer> }>();
  useEffect(() => {
    let isCurrent = true;
    let turn = 0; // of the readings: an older answer must not replace a newer one
    const stop = effect(() => {
      for (const [kind, key] of watched) void version(kind, key).value;
      turn += 1;
      const mine = turn;
      const settle = (reading: Reading<Answer>) => {
        if (isCurrent && mine === turn) setState({ depends, reading });
      };
      void hasBegun
        .then(read)
        .then((value) => settle({ value, failure: "" }))
        .catch((error: unknown) => settle({ value: undefined, failure: explanation(error) }));
    });
    return () => {
      isCurrent = false;
      stop();
    };
  }, depends);
  const isOutdated = state && depends.some((value, i) => value !== state.depends[i]);
  return state && !isOutdated ? state.reading : { value: undefined, failure: "" };
}

/** One object by its name, null if there is none. */
export function useObject<Row>(kind: string, fields: readonly string[], name: string): Reading<Row | null> {
  const read = async () => (await query<Row>(kind, fields, ["=", "name", name]))[0] ?? null;
  return useReading(read, [kind, name], [[kind, name]]);
}

/** An answer of a resource that is only read. */
export function useAnswer<Answer>(path: string, watched: readonly (readonly [string, string])[] = []): Reading<Answer> {
  return useReading(() => request<Answer>("GET", path), [path], watched);
}

/** Make sure that lists are read; they then stay current. */
export function useLists(...lists: readonly { load: () => Promise<void> }[]): void {
  useEffect(() => {
    for (const list of lists) void list.load();
  }, []);
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Gantry`;
  }, [title]);
}
