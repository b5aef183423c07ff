// The form of a new instance: what is typed, what is sent, and where an error of the server belongs.

import { parseAddress } from "./addresses.ts";
import { type Policy, refusal } from "./policy.ts";
import { parseCount, parseSize } from "./sizes.ts";

/** Where an address of a NIC comes from: any pool, the pool of a name, or it is typed. */
export interface AddressChoice {
  readonly from: "any" | "pool" | "typed";
  readonly text: string; // the name of the pool, or the address
}

export interface NicForm {
  readonly network: string; // empty: the default bridge of the cluster
  readonly addresses: readonly AddressChoice[];
}

export interface CreationForm {
  readonly name: string;
  readonly os: string; // empty: nothing is installed
  readonly template: string;
  readonly disks: readonly string[];
  readonly memory: string; // empty: the default of the cluster
  readonly cpus: string;
  readonly nics: readonly NicForm[];
  readonly node: string; // empty: the allocator chooses
  readonly secondary: string;
  readonly group: string;
  readonly tags: string;
  readonly starts: boolean;
}

export const ANY: AddressChoice = { from: "any", text: "" };

export function emptyForm(network = "", address = ""): CreationForm {
  const choice: AddressChoice = address ? { from: "typed", text: address } : ANY;
  return {
    name: "",
    os: "",
    template: "",
    disks: ["10G"],
    memory: "",
    cpus: "",
    nics: [{ network, addresses: network ? [choice] : [] }],
    node: "",
    secondary: "",
    group: "",
    tags: "",
    starts: true,
  };
}

/** The templates whose disks have a copy on a second node. */
const MIRRORED: ReadonlySet<string> = new Set(["drbd"]);

export function isMirrored(template: string): boolean {
  return MIRRORED.has(template);
}

export function tagList(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

function addressText(choice: AddressChoice): string {
  return choice.from === "any" ? "pool" : choice.text.trim();
}

/** The body of the request that creates the instance. */
export function creationBody(form: CreationForm): Record<string, unknown> {
  const hasDisks = form.template !== "diskless";
  const memory = parseSize(form.memory);
  const cpus = parseCount(form.cpus);
  return {
    __version__: 1,
    mode: "create",
    instance_name: form.name.trim(),
    disk_template: form.template,
    disks: hasDisks ? form.disks.map((text) => ({ size: parseSize(text) })) : [],
    ...(hasDisks && (form.os ? { os_type: form.os } : { no_install: true })),
    beparams: { ...(memory !== null && { memory }), ...(cpus !== null && { vcpus: cpus }) },
    nics: form.nics.map((nic) => ({
      ...(nic.network && { network: nic.network }),
      ...(nic.addresses.length > 0 && { ip: nic.addresses.map(addressText) }),
    })),
    ...(form.node && { pnode: form.node }),
    ...(form.node && isMirrored(form.template) && form.secondary && { snode: form.secondary }),
    ...(!form.node && form.group && { group_name: form.group }),
    tags: tagList(form.tags),
    start: form.starts,
  };
}

export type Problems = ReadonlyMap<string, string>;

/** What cannot be right, by the name of the field; the server checks all of it again, and more. */
export function creationProblems(
  form: CreationForm,
  known: { policy: Policy | null; names: ReadonlySet<string> },
): Map<string, string> {
  const problems = new Map<string, string>();
  const note = (field: string, text: string) => {
    if (text && !problems.has(field)) problems.set(field, text);
  };
  const name = form.name.trim();
  if (!name) note("name", "An instance needs a name.");
  if (known.names.has(name)) note("name", `There is an instance named ${name}.`);
  if (form.template !== "diskless") {
    for (const [i, text] of form.disks.entries()) {
      const size = parseSize(text);
      note(`disk ${i}`, size === null ? SIZE_HELP : refusal(known.policy, "disk-size", size));
    }
    note("disks", refusal(known.policy, "disk-count", form.disks.length));
  }
  if (form.memory.trim()) {
    const memory = parseSize(form.memory);
    note("memory", memory === null ? SIZE_HELP : refusal(known.policy, "memory-size", memory));
  }
  if (form.cpus.trim()) {
    const cpus = parseCount(form.cpus);
    note("cpus", cpus === null ? "Write a whole number." : refusal(known.policy, "cpu-count", cpus));
  }
  note("nics", refusal(known.policy, "nic-count", form.nics.length));
  for (const [i, nic] of form.nics.entries()) {
    for (const choice of nic.addresses) {
      if (choice.from === "typed" && !parseAddress(choice.text.trim())) note(`nic ${i}`, "Write an IP address.");
    }
  }
  return problems;
}

export const SIZE_HELP = "Write a size such as 10G or 512M.";

/** What an error says when it is about a field, and the field; the first that matches counts. */
const SUBJECTS: readonly (readonly [pattern: RegExp, field: string])[] = [
  [/\bmemory-size\b/, "memory"],
  [/\bcpu-count\b|\bvcpus?\b/i, "cpus"],
  [/\bdisk-count\b/, "disks"],
  [/\bdisk-size\b/, "disk 0"],
  [/\bnic-count\b/, "nics"],
  [/\$\.instance_name|\binstance \S+ exists already|\binstance name\b/, "name"],
  [/\$\.tags/, "tags"],
  [/\$\.beparams|\bmaxmem\b|\bbackend parameter\b/, "memory"],
  [/\$\.os_type|\boperating system\b|\bOS \S+/, "os"],
  [/\bdisk template\b|\btemplate \S+/, "template"],
  [/\bno node can take\b|\bcannot take instance\b|\bnode \S+ (?:is|cannot|does)\b|\bnode group \S+/, "node"],
];

/** Return the field that an error of the server is about; empty if that cannot be read from it. */
export function fieldOf(text: string, form: CreationForm): string {
  const numbered = /\b(NIC|disk) (\d+)\b|\$\.(nics|disks)\[(\d+)\]/i.exec(text);
  if (numbered) {
    const kind = (numbered[1] ?? numbered[3] ?? "").toLowerCase().startsWith("nic") ? "nic" : "disk";
    return `${kind} ${numbered[2] ?? numbered[4]}`;
  }
  const words = new Set(text.split(/[\s,;()]+/).map((word) => word.replace(/[.:]$/, "")));
  const isNamed = (nic: NicForm) =>
    nic.addresses.some((choice) => choice.from !== "any" && words.has(choice.text.trim())) ||
    (nic.network !== "" && new RegExp(`\\bnetwork ${escaped(nic.network)}(?![\\w.-]*\\w)`).test(text));
  const subject = SUBJECTS.find(([pattern]) => pattern.test(text))?.[1] ?? "";
  if (subject && subject !== "node") return subject;
  const nic = form.nics.findIndex(isNamed);
  return nic >= 0 && subject === "" ? `nic ${nic}` : subject;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
