// The filter of a list: its text is a part of the page's address, so a filtered list can be sent to a colleague.

import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { replaceQuery, route } from "../router.ts";

const SETTLE_MILLISECONDS = 300; // after the last key the text goes into the address

export function useFilter(): Signal<string> {
  const given = route.value.query.get("q") ?? "";
  const text = useSignal(given);
  useSignalEffect(() => {
    const q = text.value;
    const timer = setTimeout(() => replaceQuery({ q }), SETTLE_MILLISECONDS);
    return () => clearTimeout(timer);
  });
  useEffect(() => {
    if (given !== text.peek()) text.value = given;
  }, [given]);
  return text;
}

export function FilterBox({ text, label, placeholder }: { text: Signal<string>; label: string; placeholder: string }) {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={`Filter: ${placeholder}`}
      value={text.value}
      onInput={(event) => {
        text.value = event.currentTarget.value;
      }}
    />
  );
}
