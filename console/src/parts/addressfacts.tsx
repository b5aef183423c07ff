// Who has an address, a CIDR or a name's addresses, and who had it.

import * as format from "../logic/format.ts";
import { href, objectHref } from "../logic/routes.ts";
import { opcodeWords } from "../logic/summaries.ts";
import { useAnswer } from "./hooks.ts";
import { Ago, Badge, Failure, Loading, None, Scrolling } from "./text.tsx";

export interface AddressRow {
  readonly address: string;
  readonly state: string;
  readonly network: string;
  readonly pool: string;
  readonly kind: string;
  readonly owner: string;
  readonly mac: string;
  readonly from: number | null;
  readonly to: number | null;
  readonly job: number | null;
  readonly opcode: string;
  readonly user: string;
  readonly end_job?: number | null;
  readonly end_opcode?: string;
}

interface Answer {
  readonly since: number;
  readonly rows: readonly AddressRow[];
  readonly complete: boolean;
}

const TONES: Readonly<Record<string, "good" | "busy" | "idle" | "warn">> = {
  free: "idle",
  "in use": "busy",
  "was in use": "idle",
  quarantined: "warn",
};

function path(of: string, history: boolean): string {
  return `/2/addresses?${new URLSearchParams({ of, ...(history ? { history: "1" } : {}) })}`;
}

interface AddressFactsProps {
  of: string;
  watched?: readonly (readonly [kind: string, key: string])[];
  level: "h2" | "h4";
}

export function AddressFacts({ of, watched = [], level: Heading }: AddressFactsProps) {
  const present = useAnswer<Answer>(path(of, false), watched);
  const past = useAnswer<Answer>(path(of, true), watched);
  return (
    <>
      <Heading>Now</Heading>
      {present.failure && <p class="empty">{present.failure}</p>}
      {!present.value && !present.failure && <Loading what={of} />}
      {present.value && <Rows answer={present.value} empty="Nothing is in use or reserved." />}
      <Heading>History</Heading>
      {past.failure && <Failure text={past.failure} />}
      {past.value && (
        <>
          <Rows answer={past.value} empty="Nobody had it." isPast />
          <p class="none">The journal begins {format.exact(past.value.since)}.</p>
        </>
      )}
    </>
  );
}

function Rows({ answer, empty, isPast = false }: { answer: Answer; empty: string; isPast?: boolean }) {
  if (!answer.rows.length) return <p class="empty">{empty}</p>;
  return (
    <>
      <Scrolling label={isPast ? "History" : "Now"}>
        <table>
          <thead>
            <tr>
              <th scope="col">Address</th>
              <th scope="col">State</th>
              <th scope="col">Owner</th>
              <th scope="col">Network</th>
              <th scope="col">From</th>
              <th scope="col">{isPast ? "To" : "Until"}</th>
              <th scope="col">By</th>
            </tr>
          </thead>
          <tbody>
            {answer.rows.map((row) => (
              <tr key={`${row.address} ${row.state} ${row.from} ${row.owner}`}>
                <td>
                  {row.network ? (
                    <a href={href(["networks", row.network], { address: row.address })}>{row.address}</a>
                  ) : (
                    row.address
                  )}
                </td>
                <td>
                  <Badge
                    status={{
                      tone: TONES[row.state] ?? "idle",
                      word: row.state,
                      about: row.pool && `Pool ${row.pool}`,
                    }}
                  />
                </td>
                <td>
                  <Owner row={row} />
                </td>
                <td>{row.network ? <a href={href(["networks", row.network])}>{row.network}</a> : <None />}</td>
                <td>
                  <Ago time={row.from} />
                </td>
                <td>
                  <Ago time={row.to} />
                </td>
                <td>
                  <By row={row} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolling>
      {!answer.complete && <p class="none">These are the first {format.number(answer.rows.length)}; there are more.</p>}
    </>
  );
}

function Owner({ row }: { row: AddressRow }) {
  if (!row.owner) return <None />;
  const target = row.kind === "running guest" ? objectHref("instance", row.owner) : objectHref(row.kind, row.owner);
  return (
    <>
      {target ? <a href={target}>{row.owner}</a> : row.owner}
      {row.kind !== "instance" && <span class="none"> ({row.kind})</span>}
    </>
  );
}

function By({ row }: { row: AddressRow }) {
  if (!row.job && !row.opcode) return <None />;
  return (
    <>
      {row.job ? (
        <a href={href(["jobs", row.job])} title={opcodeWords(row.opcode)}>
          job {row.job}
        </a>
      ) : (
        opcodeWords(row.opcode)
      )}
      {row.end_job ? (
        <>
          {" to "}
          <a href={href(["jobs", row.end_job])} title={opcodeWords(row.end_opcode ?? "")}>
            job {row.end_job}
          </a>
        </>
      ) : null}
    </>
  );
}
