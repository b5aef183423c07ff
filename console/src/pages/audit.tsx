// The audit: who did what, from where and by which right, and what it changed. The server reads its journal for it, so
// it is read when the form is sent, and not again with each event.

import { useState } from "preact/hooks";
import { request } from "../api.ts";
import { DEFAULT_PERIOD, type Entry, type ObjectChange, PERIODS, origin, since, valueWords } from "../logic/audit.ts";
import * as format from "../logic/format.ts";
import { href, objectHref } from "../logic/routes.ts";
import { parseSummary } from "../logic/summaries.ts";
import { SelectField, TextField } from "../parts/form.tsx";
import { useReading, useTitle } from "../parts/hooks.ts";
import { Failure, Loading, None, Scrolling } from "../parts/text.tsx";
import { replaceQuery, route } from "../router.ts";

interface Answer {
  readonly entries: readonly Entry[];
  readonly since: { readonly serial: number; readonly time: number | null };
}

const MOST = 200;

export function AuditPage() {
  useTitle("Audit");
  const { query } = route.value;
  const [turn, setTurn] = useState(0);
  const who = query.get("who") ?? "";
  const object = query.get("object") ?? "";
  const period = query.get("period") ?? DEFAULT_PERIOD;
  const { value, failure } = useReading(() => read(who, object, period), [who, object, period, turn]);
  return (
    <>
      <header class="head">
        <h1>Audit</h1>
        <p class="about" role="status">
          {value && format.plural(value.entries.length, "entry", "entries")}
        </p>
      </header>
      <Question
        key={`${who} ${object} ${period}`}
        who={who}
        object={object}
        period={period}
        again={() => setTurn(turn + 1)}
      />
      {failure && <Failure text={failure} />}
      {!value && !failure && <Loading what="the journal" />}
      {value && <Entries answer={value} />}
    </>
  );
}

async function read(who: string, object: string, period: string): Promise<Answer> {
  const values = { who, object, since: since(period, Date.now() / 1000), limit: String(MOST) };
  return await request("GET", `/2/audit?${new URLSearchParams(Object.entries(values).filter(([, text]) => text))}`);
}

function Question({ who, object, period, again }: { who: string; object: string; period: string; again: () => void }) {
  const [user, setUser] = useState(who);
  const [name, setName] = useState(object);
  const [span, setSpan] = useState(period);
  return (
    <form
      class="question"
      onSubmit={(event) => {
        event.preventDefault();
        replaceQuery({ who: user.trim(), object: name.trim(), period: span === DEFAULT_PERIOD ? "" : span });
        again();
      }}
    >
      <TextField label="User" value={user} onValue={setUser} />
      <TextField label="Object (name or UUID)" value={name} onValue={setName} />
      <SelectField
        label="Time"
        value={span}
        onValue={setSpan}
        options={PERIODS.map(([value, text]) => ({ value, text }))}
      />
      <button type="submit">Read the journal</button>
    </form>
  );
}

function Entries({ answer }: { answer: Answer }) {
  if (!answer.entries.length) return <p class="empty">The journal has no such entry.</p>;
  return (
    <>
      <Scrolling label="Audit">
        <table class="entries">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Who</th>
              <th scope="col">From</th>
              <th scope="col">By which right</th>
              <th scope="col">What</th>
              <th scope="col">Changes</th>
            </tr>
          </thead>
          <tbody>
            {answer.entries.toReversed().map((entry) => (
              <tr key={`${entry.serial} ${entry.job}`}>
                <td>{format.exact(entry.time)}</td>
                <td>
                  {entry.user || "the cluster"}
                  {entry.token && <div class="none">with token {entry.token}</div>}
                </td>
                <td>{origin(entry) || <None />}</td>
                <td class="wraps">{entry.right || <None />}</td>
                <td class="wraps">
                  <What entry={entry} />
                </td>
                <td class="wraps">
                  {entry.changes.map((change) => (
                    <Change key={`${change.kind} ${change.key} ${change.what}`} change={change} />
                  ))}
                  {entry.changes.length === 0 && <None />}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolling>
      {answer.entries.length >= MOST && <p class="none">These are the last {MOST}; gantry audit shows more.</p>}
    </>
  );
}

function What({ entry }: { entry: Entry }) {
  if (!entry.job) return <>{entry.what}</>;
  const { words, name, more } = parseSummary(entry.what);
  return (
    <>
      {words} {name}
      {more > 0 && ` and ${more} more`} (<a href={href(["jobs", entry.job])}>job {entry.job}</a>, {entry.status})
      {entry.reason && <div class="none">{entry.reason}</div>}
    </>
  );
}

function Change({ change }: { change: ObjectChange }) {
  const link = change.what === "removed" ? null : objectHref(change.kind, change.name);
  const name = change.name || change.key;
  return (
    <div>
      {change.kind} {link ? <a href={link}>{name}</a> : name} {change.what}
      {change.fields === null && <div class="none">the journal does not have it as it was before</div>}
      {change.fields?.map((field) => (
        <div key={field.path} class="none">
          {field.path}: {valueWords(field.before)} → {valueWords(field.after)}
        </div>
      ))}
      {change.more_fields > 0 && <div class="none">and {change.more_fields} more fields</div>}
    </div>
  );
}
