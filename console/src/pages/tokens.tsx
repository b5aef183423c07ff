// API tokens of the user: the list, the form for a new one, whose text is displayed once, and revocation.

import { useRef, useState } from "preact/hooks";
import { request, session } from "../api.ts";
import { openDialog } from "../parts/dialog.tsx";
import { ChangeDialog } from "../parts/change.tsx";
import { SelectField, TextField } from "../parts/form.tsx";
import { useAnswer, useTitle } from "../parts/hooks.ts";
import { SecretDialog } from "../parts/secret.tsx";
import { Ago, Failure, Loading, Scrolling } from "../parts/text.tsx";
import * as format from "../logic/format.ts";
import { now } from "../store.ts";

interface Token {
  readonly user: string;
  readonly name: string;
  readonly allows: string;
  readonly ctime: number;
  readonly end: number | null;
  readonly id: string;
}

interface Created {
  readonly token: string;
  readonly name: string;
}

const DAY_SECONDS = 86400;

export function TokensPage() {
  useTitle("API tokens");
  const { value, failure } = useAnswer<readonly Token[]>("/2/tokens", [["token", ""]]);
  return (
    <>
      <header class="head">
        <h1>API tokens</h1>
        <p class="about" role="status">
          {value && format.plural(value.length, "token")}
        </p>
        <button type="button" class="primary" onClick={() => openDialog(<CreateDialog />)}>
          Create token…
        </button>
      </header>
      <p class="intro">
        A token lets a program use the remote API for you, until the token ends or is revoked, and for no more than it
        allows.
      </p>
      {failure && <Failure text={failure} />}
      {!value && !failure && <Loading what="the tokens" />}
      {value && value.length === 0 && <p class="empty">There are no tokens.</p>}
      {value && value.length > 0 && <Tokens rows={value} />}
    </>
  );
}

function Tokens({ rows }: { rows: readonly Token[] }) {
  const user = session.value?.user;
  const hasOthers = rows.some((row) => row.user !== user);
  return (
    <Scrolling label="API tokens">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            {hasOthers && <th scope="col">User</th>}
            <th scope="col">Allows</th>
            <th scope="col">Created</th>
            <th scope="col">Ends</th>
            <th scope="col">Id</th>
            <th scope="col">Actions</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              <td>{row.name}</td>
              {hasOthers && <td>{row.user}</td>}
              <td>{row.allows}</td>
              <td>
                <Ago time={row.ctime} />
              </td>
              <td>
                <End end={row.end} />
              </td>
              <td>
                <code>{row.id}</code>
              </td>
              <td>
                <button type="button" class="danger" onClick={() => askRevocation(row)}>
                  Revoke…
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolling>
  );
}

function End({ end }: { end: number | null }) {
  if (end === null) return <>never</>;
  if (end <= now.value) return <span class="badge bad">ended</span>;
  return <time dateTime={new Date(end * 1000).toISOString()}>{format.exact(end)}</time>;
}

function askRevocation(token: Token): void {
  const { user, name } = token;
  openDialog(
    <ChangeDialog
      title={`Revoke ${name} of ${user}?`}
      action="Revoke"
      keep="Keep it"
      isDangerous
      run={async () => {
        await request("DELETE", `/2/tokens/${encodeURIComponent(user)}/${encodeURIComponent(name)}`);
      }}
    >
      <p>Programs that use the token are refused from their next request on. This cannot be undone.</p>
    </ChangeDialog>,
  );
}

const EXTENTS = [
  { value: "everything", text: "everything that I may" },
  { value: "read", text: "reading alone" },
  { value: "roles", text: "a role on objects" },
];
const ROLES = ["viewer", "operator", "admin", "network-admin"].map((role) => ({ value: role, text: role }));
const ENDS = [
  ...[7, 30, 90, 365].map((days) => ({ value: String(days), text: `after ${days} days` })),
  { value: "never", text: "never" },
];

function CreateDialog() {
  const [name, setName] = useState("");
  const [extent, setExtent] = useState("read");
  const [role, setRole] = useState("operator");
  const [on, setOn] = useState("");
  const [end, setEnd] = useState("90");
  const created = useRef<Created | null>(null);
  return (
    <ChangeDialog
      title="Create an API token"
      action="Create"
      isReady={name !== "" && (extent !== "roles" || on !== "")}
      onDone={() => created.current && openSecret(created.current)}
      run={async () => {
        const until = end === "never" ? end : Date.now() / 1000 + Number(end) * DAY_SECONDS;
        const roles = extent === "roles" ? { roles: [{ role, on }] } : {};
        created.current = await request<Created>("POST", "/2/tokens", { name, extent, until, ...roles });
      }}
    >
      <TextField
        label="Name"
        hint="Letters, digits and . _ -; for example the program that will use the token"
        value={name}
        onValue={setName}
        isRequired
        isFocused
      />
      <SelectField label="Allows" value={extent} onValue={setExtent} options={EXTENTS} />
      {extent === "roles" && (
        <>
          <SelectField label="Role" value={role} onValue={setRole} options={ROLES} />
          <TextField
            label="On"
            hint="cluster, group:NAME, tag:TAG, project:ID, instance:NAME or network:NAME"
            value={on}
            onValue={setOn}
            isRequired
          />
        </>
      )}
      <SelectField label="Ends" value={end} onValue={setEnd} options={ENDS} />
    </ChangeDialog>
  );
}

/** The text of a new token, which nobody can display again. */
function openSecret(created: Created): void {
  openDialog(
    <SecretDialog title={`The token ${created.name}`} text={created.token}>
      <p>This is the only time that the token is displayed. Copy it to where the program reads it.</p>
    </SecretDialog>,
  );
}
