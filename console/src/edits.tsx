// Changes of an instance, each in a dialog that says what another person has changed since it was opened.

import { useEffect, useRef, useState } from "preact/hooks";
import { ANY, type NicForm, tagList } from "./logic/creation.ts";
import * as format from "./logic/format.ts";
import { href } from "./logic/routes.ts";
import { parseCount, parseSize } from "./logic/sizes.ts";
import { differences } from "./logic/versions.ts";
import { byName } from "./model.ts";
import { ChangeDialog, type Send } from "./parts/change.tsx";
import { Dialog, closeDialog, openDialog } from "./parts/dialog.tsx";
import { CheckField, SelectField, TextField } from "./parts/form.tsx";
import { useLists, useObject, useReading } from "./parts/hooks.ts";
import { NicFields, type NetworkChoice, readNetworks } from "./parts/nicfields.tsx";
import { Failure, Loading } from "./parts/text.tsx";
import { go } from "./router.ts";
import { nodes } from "./store.ts";

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

interface Editable {
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

function path(name: string, action = ""): string {
  return `/2/instances/${encodeURIComponent(name)}${action && `/${action}`}`;
}

interface EditorProps {
  title: string;
  name: string;
  children: (opened: Editable, present: Editable) => preact.ComponentChildren;
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
function Meanwhile({ opened, present }: { opened: Editable; present: Editable }) {
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

function open(title: string, name: string, part: EditorProps["children"]): void {
  openDialog(
    <Editor title={title} name={name}>
      {part}
    </Editor>,
  );
}

interface PartProps {
  opened: Editable;
  present: Editable;
}

export function editSize(name: string): void {
  open(`Change ${name}`, name, (opened, present) => <Size opened={opened} present={present} />);
}

function Size({ opened, present }: PartProps) {
  const isRange = opened["be/maxmem"] !== opened["be/minmem"];
  const [memory, setMemory] = useState(format.size(opened["be/maxmem"]));
  const [cpus, setCpus] = useState(String(opened.vcpus));
  const [tags, setTags] = useState(opened.tags.join(" "));
  const [mib, count] = [parseSize(memory), parseCount(cpus)];
  const run = async (send: Send) => {
    const beparams = {
      ...(mib !== opened["be/maxmem"] && { [isRange ? "maxmem" : "memory"]: mib }),
      ...(count !== opened.vcpus && { vcpus: count }),
    };
    if (Object.keys(beparams).length) {
      await send("PUT", path(present.name, "modify"), { beparams }, present.serial_no);
    }
    const wanted = tagList(tags);
    await setTagsOf(
      send,
      present.name,
      wanted.filter((tag) => !opened.tags.includes(tag)),
      opened.tags.filter((tag) => !wanted.includes(tag)),
    );
  };
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={`Change ${opened.name}`}
      action="Save"
      isReady={mib !== null && count !== null}
      run={run}
    >
      <TextField
        label={isRange ? "Maximum memory" : "Memory"}
        value={memory}
        onValue={setMemory}
        problem={mib === null ? "Write a size such as 2G or 512M." : ""}
        hint="A running guest has it from its next start."
        isFocused
      />
      <TextField
        label="CPUs"
        value={cpus}
        onValue={setCpus}
        problem={count === null ? "Write a whole number." : ""}
        hint="A running guest has them from its next start."
      />
      <TextField label="Tags" value={tags} onValue={setTags} />
    </ChangeDialog>
  );
}

async function setTagsOf(send: Send, name: string, added: readonly string[], removed: readonly string[]) {
  const queryOf = (list: readonly string[]) => new URLSearchParams(list.map((tag) => ["tag", tag]));
  if (added.length) await send("PUT", `${path(name, "tags")}?${queryOf(added)}`);
  if (removed.length) await send("DELETE", `${path(name, "tags")}?${queryOf(removed)}`);
}

export function addNic(name: string): void {
  open(`Add a NIC to ${name}`, name, (opened, present) => <NicPart opened={opened} present={present} index={null} />);
}

export function changeNic(name: string, index: number): void {
  open(`Change NIC ${index} of ${name}`, name, (opened, present) => (
    <NicPart opened={opened} present={present} index={index} />
  ));
}

function NicPart({ opened, present, index }: PartProps & { index: number | null }) {
  const { value: networks, failure } = useReading(readNetworks, []);
  const title = index === null ? `Add a NIC to ${opened.name}` : `Change NIC ${index} of ${opened.name}`;
  if (!networks) {
    return (
      <Dialog title={title}>
        {failure ? <Failure text={failure} /> : <Loading what="networks" />}
        <div class="buttons">
          <button type="button" onClick={closeDialog}>
            Close
          </button>
        </div>
      </Dialog>
    );
  }
  return <NicForms title={title} opened={opened} present={present} index={index} networks={networks} />;
}

interface NicFormsProps extends PartProps {
  title: string;
  index: number | null;
  networks: readonly NetworkChoice[];
}

function firstNic(opened: Editable, index: number | null, networks: readonly NetworkChoice[]): NicForm {
  if (index === null) return { network: networks[0]?.name ?? "", addresses: networks.length ? [ANY] : [] };
  const ips = opened["nic.ips"][index] ?? [];
  return {
    network: opened["nic.networks.names"][index] ?? "",
    addresses: ips.map((text) => ({ from: "typed", text })),
  };
}

function NicForms({ title, opened, present, index, networks }: NicFormsProps) {
  const first = firstNic(opened, index, networks);
  const [nic, setNic] = useState(first);
  const run = async (send: Send) => {
    const ip = nic.addresses.map((choice) => (choice.from === "any" ? "pool" : choice.text.trim()));
    const values = { ...(nic.network !== first.network || index === null ? networkOf(nic, index) : {}), ip };
    const change = index === null ? ["add", -1, values] : ["modify", index, values];
    await send("PUT", path(present.name, "modify"), { nics: [change] }, present.serial_no);
  };
  const at = index ?? 0;
  const link = [opened["nic.modes"][at], opened["nic.links"][at]].filter(Boolean).join(" ") || "the default bridge";
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={title}
      action={index === null ? "Add the NIC" : "Save"}
      run={run}
    >
      <NicFields
        label={index === null ? "New NIC" : `NIC ${index}`}
        nic={nic}
        networks={networks}
        group={opened["pnode.group"]}
        bridge={link}
        onChange={setNic}
      />
    </ChangeDialog>
  );
}

function networkOf(nic: NicForm, index: number | null): { network?: string } {
  if (nic.network) return { network: nic.network };
  return index === null ? {} : { network: "none" };
}

export function removeNic(name: string, index: number): void {
  open(`Remove NIC ${index} of ${name}?`, name, (opened, present) => {
    const ips = opened["nic.ips"][index] ?? [];
    return (
      <ChangeDialog
        warning={<Meanwhile opened={opened} present={present} />}
        title={`Remove NIC ${index} of ${name}?`}
        action="Remove the NIC"
        keep="Keep it"
        isDangerous
        run={async (send) => {
          await send("PUT", path(name, "modify"), { nics: [["remove", index]] }, present.serial_no);
        }}
      >
        <p>
          {ips.length
            ? `${name} loses this NIC, and its ${ips.length === 1 ? "address" : "addresses"} ${format.list(ips)} can be given to another instance.`
            : `${name} loses this NIC, which has no address.`}
        </p>
      </ChangeDialog>
    );
  });
}

export function growDisk(name: string, index: number): void {
  open(`Grow disk ${index} of ${name}`, name, (opened, present) => (
    <Growth opened={opened} present={present} index={index} />
  ));
}

function Growth({ opened, present, index }: PartProps & { index: number }) {
  const now = present["disk.sizes"][index] ?? 0;
  const [text, setText] = useState("");
  const size = parseSize(text);
  const problem =
    text && size === null ? "Write a size such as 20G." : size !== null && size <= now ? "A disk can only grow." : "";
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={`Grow disk ${index} of ${opened.name}`}
      action="Grow the disk"
      isReady={size !== null && !problem}
      isLong
      run={async (send) => {
        const body = { amount: size, absolute: true };
        await send("POST", path(present.name, `disk/${index}/grow`), body, present.serial_no);
      }}
    >
      <TextField
        label="New size"
        value={text}
        onValue={setText}
        placeholder={format.size(now * 2)}
        hint={`It has ${format.size(now)} now. It cannot shrink again.`}
        problem={problem}
        isFocused
      />
    </ChangeDialog>
  );
}

export function rename(name: string): void {
  open(`Rename ${name}`, name, (opened, present) => <Renaming opened={opened} present={present} />);
}

function Renaming({ opened, present }: PartProps) {
  const [text, setText] = useState(opened.name);
  const newName = text.trim();
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={`Rename ${opened.name}`}
      action="Rename"
      isReady={newName !== "" && newName !== opened.name}
      run={async (send) => {
        await send("PUT", path(present.name, "rename"), { new_name: newName }, present.serial_no);
      }}
      onDone={() => go(href(["instances", newName]))}
    >
      <TextField
        label="New name"
        value={text}
        onValue={setText}
        hint="The instance has to be stopped. Its operating system may change its own name, too."
        isFocused
      />
    </ChangeDialog>
  );
}

/** The templates whose disks every node reaches, or that have none. */
const ANYWHERE: ReadonlySet<string> = new Set(["sharedfile", "ext", "blockdev", "diskless"]);

export function failOver(name: string): void {
  open(`Fail over ${name}`, name, (opened, present) => <Failover opened={opened} present={present} />);
}

function Failover({ opened, present }: PartProps) {
  useLists(nodes);
  const [target, setTarget] = useState("");
  const usable = byName(nodes.rows.value).filter(
    (node) => node.name !== present.pnode && node.vm_capable && node.role !== "O",
  );
  const usual = present.snodes[0] ?? "";
  const automatic = usual ? `${usual}: it has a copy of the disks` : "automatic: the allocator chooses";
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={`Fail over ${opened.name}`}
      action="Fail over"
      keep={`Keep it on ${present.pnode}`}
      isDangerous
      isLong
      run={async (send) => {
        const body = target ? { target_node: target } : {};
        await send("PUT", path(present.name, "failover"), body, present.serial_no);
      }}
    >
      <p>
        The guest is stopped on {present.pnode} and started on another node. Use it if {present.pnode} does not answer,
        or if the instance cannot migrate.
      </p>
      {!usual && !ANYWHERE.has(present.disk_template) && (
        <p>
          Its disks ({present.disk_template}) are on {present.pnode} alone: the server will probably refuse.
        </p>
      )}
      <SelectField
        label="Target node"
        value={target}
        onValue={setTarget}
        options={[
          { value: "", text: automatic },
          ...usable.filter(({ name }) => name !== usual).map(({ name }) => ({ value: name, text: name })),
        ]}
      />
    </ChangeDialog>
  );
}

export function exportInstance(name: string): void {
  open(`Export ${name}`, name, (opened, present) => <Export opened={opened} present={present} />);
}

function Export({ opened, present }: PartProps) {
  useLists(nodes);
  const usable = byName(nodes.rows.value).filter((node) => node.role !== "O");
  const [target, setTarget] = useState("");
  const [isStopped, setStopped] = useState(true);
  const first = usable[0]?.name ?? "";
  useEffect(() => {
    if (!target && first) setTarget(first);
  }, [first]);
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={`Export ${opened.name}`}
      action="Export"
      isReady={target !== ""}
      isLong
      run={async (send) => {
        const body = { destination: target, shutdown: isStopped };
        await send("PUT", path(present.name, "export"), body);
      }}
    >
      <p>The disks and the parameters are copied to an export on a node, from which the instance can be made again.</p>
      <SelectField
        label="Node that keeps the export"
        value={target}
        onValue={setTarget}
        options={usable.map((node) => ({ value: node.name, text: node.name }))}
      />
      <CheckField
        label="Stop the guest meanwhile, so that its files are complete"
        isChecked={isStopped}
        onCheck={setStopped}
      />
    </ChangeDialog>
  );
}
