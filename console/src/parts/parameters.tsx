// Parameters with what is set for the object itself, and on request those that follow from the levels above.

import { useState } from "preact/hooks";
import { plural, value } from "../logic/format.ts";
import { parameterRows } from "../logic/parameters.ts";
import { Scrolling } from "./text.tsx";

type Values = Readonly<Record<string, unknown>>;

export function Parameters({ title, filled, custom }: { title: string; filled: Values | null; custom: Values | null }) {
  const [isWhole, setWhole] = useState(false);
  const rows = parameterRows(filled ?? {}, custom ?? {});
  const inherited = rows.filter((row) => !row.isSet).length;
  const shown = isWhole ? rows : rows.filter((row) => row.isSet);
  if (!rows.length) return null;
  return (
    <div class="parameters">
      <h3>{title}</h3>
      {shown.length ? (
        <Scrolling label={title}>
          <table>
            <thead>
              <tr>
                <th scope="col">Parameter</th>
                <th scope="col">Value</th>
                <th scope="col">From</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={row.name} class={row.isSet ? "set" : ""}>
                  <td>{row.name}</td>
                  <td class="wraps">{value(row.value)}</td>
                  <td>{row.isSet ? <strong>set here</strong> : <span class="none">default</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolling>
      ) : (
        <p class="empty">Nothing is set here.</p>
      )}
      {inherited > 0 && (
        <button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show only what is set here" : `Show ${plural(inherited, "default")}, too`}
        </button>
      )}
    </div>
  );
}
