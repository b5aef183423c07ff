// Changes of an instance: its size, tags, NICs, disks and name.

import { useState } from "preact/hooks";
import { query } from "./api.ts";
import { ANY, type NicForm, tagList } from "./logic/creation.ts";
import * as format from "./logic/format.ts";
import { type Policy, type Spec, allowedWords, refusal } from "./logic/policy.ts";
import { href } from "./logic/routes.ts";
import { parseCount, parseSize, sizeText } from "./logic/sizes.ts";
import { ChangeDialog, type Send } from "./parts/change.tsx";
import { Dialog, closeDialog } from "./parts/dialog.tsx";
import { type Editable, Meanwhile, type PartProps, instancePath, openEditor } from "./parts/editor.tsx";
import { TextField } from "./parts/form.tsx";
import { useReading } from "./parts/hooks.ts";
import { NicFields, type NetworkChoice, readNetworks } from "./parts/nicfields.tsx";
import { Failure, Loading } from "./parts/text.tsx";
import { go } from "./router.ts";

export function editSize(name: string): void {
  openEditor(`Change ${name}`, name, (opened, present) => <Size opened={opened} present={present} />);
}

function Size({ opened, present }: PartProps) {
  const isRange = opened["be/maxmem"] !== opened["be/minmem"];
  const [memory, setMemory] = useState(sizeText(opened["be/maxmem"]));
  const [cpus, setCpus] = useState(String(opened.vcpus));
  const [tags, setTags] = useState(opened.tags.join(" "));
  const [mib, count] = [parseSize(memory), parseCount(cpus)];
  const { value: policy = null } = useReading(() => readPolicy(opened["pnode.group"]), []);
  const memoryProblem = mib === null ? "Write a size such as 2G or 512M." : refusal(policy, "memory-size", mib);
  const cpusProblem = count === null ? "Write a whole number." : refusal(policy, "cpu-count", count);
  const run = async (send: Send) => {
    const beparams = {
      ...(mib !== opened["be/maxmem"] && { [isRange ? "maxmem" : "memory"]: mib }),
      ...(count !== opened.vcpus && { vcpus: count }),
    };
    if (Object.keys(beparams).length) {
      await send("PUT", instancePath(present.name, "modify"), { beparams }, present.serial_no);
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
        problem={memoryProblem}
        hint={hintOf(policy, "memory-size")}
        isFocused
      />
      <TextField label="CPUs" value={cpus} onValue={setCpus} problem={cpusProblem} hint={hintOf(policy, "cpu-count")} />
      <TextField label="Tags" value={tags} onValue={setTags} />
    </ChangeDialog>
  );
}

async function readPolicy(group: string): Promise<Policy | null> {
  const found = await query<{ ipolicy: Policy | null }>("group", ["ipolicy"], ["=", "name", group]);
  return found[0]?.ipolicy ?? null;
}

function hintOf(policy: Policy | null, spec: Spec): string {
  return [allowedWords(policy, spec), "A running guest has it from its next start."].filter(Boolean).join(". ");
}

async function setTagsOf(send: Send, name: string, added: readonly string[], removed: readonly string[]) {
  const queryOf = (list: readonly string[]) => new URLSearchParams(list.map((tag) => ["tag", tag]));
  if (added.length) await send("PUT", `${instancePath(name, "tags")}?${queryOf(added)}`);
  if (removed.length) await send("DELETE", `${instancePath(name, "tags")}?${queryOf(removed)}`);
}

export function addNic(name: string): void {
  openEditor(`Add a NIC to ${name}`, name, (opened, present) => (
    <NicPart opened={opened} present={present} index={null} />
  ));
}

export function changeNic(name: string, index: number): void {
  openEditor(`Change NIC ${index} of ${name}`, name, (opened, present) => (
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
    await send("PUT", instancePath(present.name, "modify"), { nics: [change] }, present.serial_no);
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
  openEditor(`Remove NIC ${index} of ${name}?`, name, (opened, present) => {
    const ips = opened["nic.ips"][index] ?? [];
    return (
      <ChangeDialog
        warning={<Meanwhile opened={opened} present={present} />}
        title={`Remove NIC ${index} of ${name}?`}
        action="Remove the NIC"
        keep="Keep it"
        isDangerous
        run={async (send) => {
          await send("PUT", instancePath(name, "modify"), { nics: [["remove", index]] }, present.serial_no);
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
  openEditor(`Grow disk ${index} of ${name}`, name, (opened, present) => (
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
        await send("POST", instancePath(present.name, `disk/${index}/grow`), body, present.serial_no);
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
  openEditor(`Rename ${name}`, name, (opened, present) => <Renaming opened={opened} present={present} />);
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
        await send("PUT", instancePath(present.name, "rename"), { new_name: newName }, present.serial_no);
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
