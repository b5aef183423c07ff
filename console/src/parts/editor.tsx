// A dialog about one instance: it reads the instance, and says what another person has changed since it was opened.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { differences } from "../logic/versions.ts";
import { Dialog, closeDialog, openDialog } from "./dialog.tsx";
import { useObject } from "./hooks.ts";
import { Failure, Loading } from "./text.tsx";

const FIELDS = [
  "name",
  "serial_no",
  "status",
  "pnode",
  "pnode.group",
  "snodes",
  "be/maxmem",
  "be/minmem",
  "vcpus",
  "nic.ips",
  "nic.networks.names",
  "nic.modes",
  "nic.links",
  "disk.sizes",
  "disk_template",
  "tags",
];

export interface Editable {
  readonly name: string;
  readonly serial_no: number;
  readonly status: string | null;
  readonly pnode: string;
  readonly "pnode.group": string;
  readonly snodes: readonly string[];
  readonly "be/maxmem": number;
  readonly "be/minmem": number;
  readonly vcpus: number;
  readonly "nic.ips": readonly (readonly string[])[];
  readonly "nic.networks.names": readonly (string | null)[];
  readonly "nic.modes": readonly (string | null)[];
  readonly "nic.links": readonly (string | null)[];
  readonly "disk.sizes": readonly number[];
  readonly disk_template: string;
  readonly tags: readonly string[];
}

/** The fields whose change by another person is worth a warning, with their names for people. */
const NAMED: Readonly<Record<string, string>> = {
  "be/maxmem": "Memory in MiB",
  vcpus: "CPUs",
  "nic.networks.names": "Networks",
  "nic.ips": "Addresses",
  "disk.sizes": "Disks in MiB",
  pnode: "Primary node",
  tags: "Tags",
};

/** The path of an instance, or of an action on it. */
export function instancePath(name: string, action = ""): string {
  return `/2/instances/${encodeURIComponent(name)}${action && `/${action}`}`;
}

interface EditorProps {
  title: string;
  name: string;
  children: (opened: Editable, present: Editable) => ComponentChildren;
}

/** Reads the instance, then shows the dialog; `opened` stays, `present` follows the events. */
function Editor({ title, name, children }: EditorProps) {
  const { value, failure } = useObject<Editable>("instance", FIELDS, name);
  const opened = useRef<Editable | null>(null);
  const latest = useRef<Editable | null>(null);
  if (value) latest.current = value;
  opened.current ??= latest.current;
  if (opened.current && latest.current) return <>{children(opened.current, latest.current)}</>;
  return (
    <Dialog title={title}>
      {failure && <Failure text={failure} />}
      {value === null && <p>There is no instance named {name} any more.</p>}
      {value === undefined && !failure && <Loading what={name} />}
      <div class="buttons">
        <button type="button" onClick={closeDialog}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

/** What has changed since the dialog was opened. */
export function Meanwhile({ opened, present }: { opened: Editable; present: Editable }) {
  const changed = differences({ ...opened }, { ...present }, NAMED);
  return (
    <div role="status">
      {changed.length > 0 && (
        <div class="meanwhile">
          <p>This instance has changed since you opened the form:</p>
          <ul>
            {changed.map((each) => (
              <li key={each.name}>
                {each.name}: {each.before} → <strong>{each.after}</strong>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

/** Open a dialog about an instance. */
export function openEditor(title: string, name: string, part: EditorProps["children"]): void {
  openDialog(
    <Editor title={title} name={name}>
      {part}
    </Editor>,
  );
}

/** The instance when the dialog was opened, and as it is now. */
export interface PartProps {
  opened: Editable;
  present: Editable;
}
