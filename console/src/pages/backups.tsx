// Backups: the exports on each node. Nodes know them, the state does not, so a job that makes or removes one is the event.

import { may, query } from "../api.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { naturalKey, sorted } from "../logic/rows.ts";
import { ChangeDialog } from "../parts/change.tsx";
import { openDialog } from "../parts/dialog.tsx";
import { useLists, useReading, useTitle } from "../parts/hooks.ts";
import { Failure, Loading, Scrolling } from "../parts/text.tsx";
import { instances, jobs } from "../store.ts";

interface ExportRow {
  readonly node: string;
  readonly export: string | null; // null: the node does not answer
}

const read = async () => sorted(await query<ExportRow>("export", ["node", "export"]), exportKey, "ascending");

function exportKey(row: ExportRow): string {
  return `${naturalKey(row.export ?? "")} ${naturalKey(row.node)}`;
}

export function BackupsPage() {
  useTitle("Backups");
  useLists(instances, jobs);
  const { value, failure } = useReading(read, [], [["export", ""]]);
  const complete = value?.filter((row) => row.export !== null) ?? [];
  const silent = value?.filter((row) => row.export === null).map((row) => row.node) ?? [];
  return (
    <>
      <header class="head">
        <h1>Backups</h1>
        <p class="about" role="status">
          {value && format.plural(complete.length, "export")}
        </p>
      </header>
      {failure && <Failure text={failure} />}
      {!value && !failure && <Loading what="the exports of all nodes" />}
      {silent.length > 0 && (
        <p class="failure" role="status">
          {format.list(silent)} {silent.length === 1 ? "does" : "do"} not answer: exports there are not in the list.
        </p>
      )}
      {value && complete.length === 0 && (
        <p class="empty">There are no exports. The page of an instance makes one: Export…</p>
      )}
      {complete.length > 0 && <Exports rows={complete} />}
    </>
  );
}

function Exports({ rows }: { rows: readonly ExportRow[] }) {
  const names = new Set(instances.rows.value.map((row) => row.name));
  return (
    <Scrolling label="Exports">
      <table>
        <thead>
          <tr>
            <th scope="col">Instance</th>
            <th scope="col">Node</th>
            <th scope="col">The instance now</th>
            {may("administer") && <th scope="col">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const name = row.export ?? "";
            return (
              <tr key={`${row.node} ${name}`}>
                <td>{names.has(name) ? <a href={href(["instances", name])}>{name}</a> : name}</td>
                <td>
                  <a href={href(["nodes", row.node])}>{row.node}</a>
                </td>
                <td>{names.has(name) ? "exists" : <span class="none">does not exist any more</span>}</td>
                {may("administer") && (
                  <td>
                    <button type="button" class="danger" onClick={() => askRemoval(name, rows)}>
                      Remove…
                    </button>
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scrolling>
  );
}

function askRemoval(name: string, rows: readonly ExportRow[]): void {
  const where = rows.filter((row) => row.export === name).map((row) => row.node);
  openDialog(
    <ChangeDialog
      title={`Remove the exports of ${name}?`}
      action="Remove"
      keep="Keep them"
      isDangerous
      run={async (send) => {
        await send("DELETE", `/2/instances/${encodeURIComponent(name)}/export`);
      }}
    >
      <p>
        The {where.length === 1 ? "export" : "exports"} on {format.list(where)} will be deleted. This cannot be undone.
      </p>
    </ChangeDialog>,
  );
}
