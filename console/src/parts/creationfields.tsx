// The fields of the form of a new instance.

import { ANY, type CreationForm, type Problems, isMirrored } from "../logic/creation.ts";
import * as format from "../logic/format.ts";
import { type Policy, allowedWords } from "../logic/policy.ts";
import { byName } from "../model.ts";
import { nodes } from "../store.ts";
import { CheckField, SelectField, TextField, replaced } from "./form.tsx";
import { type NetworkChoice, NicFields } from "./nicfields.tsx";

export interface Info {
  readonly enabled_disk_templates: readonly string[];
  readonly ipolicy: Policy;
  readonly beparams: { readonly default: { readonly maxmem: number; readonly vcpus: number } };
  readonly nicparams: { readonly default: { readonly mode: string; readonly link: string } };
}

export interface GroupChoice {
  readonly name: string;
  readonly ipolicy: Policy | null;
}

/** What the form offers and compares with. */
export interface Known {
  readonly info: Info;
  readonly systems: readonly string[];
  readonly groups: readonly GroupChoice[];
  readonly networks: readonly NetworkChoice[];
}

interface FieldsProps {
  form: CreationForm;
  known: Known;
  problems: Problems;
  policy: Policy | null;
  onChange: (changes: Partial<CreationForm>) => void;
}

export function CreationFields(props: FieldsProps) {
  return (
    <>
      <Subject {...props} />
      <Disks {...props} />
      <Nics {...props} />
      <Placement {...props} />
    </>
  );
}

function Subject({ form, known, problems, policy, onChange }: FieldsProps) {
  const defaults = known.info.beparams.default;
  return (
    <fieldset>
      <legend>Instance</legend>
      <div class="fields">
        <TextField
          label="Name"
          value={form.name}
          onValue={(name) => onChange({ name })}
          problem={problems.get("name")}
          placeholder="web1.example"
          isRequired
          isFocused
        />
        {form.template !== "diskless" && (
          <SelectField
            label="Operating system"
            value={form.os}
            onValue={(os) => onChange({ os })}
            options={[
              ...known.systems.map((name) => ({ value: name, text: name })),
              { value: "", text: "none: the disks stay empty" },
            ]}
            problem={problems.get("os")}
          />
        )}
        <TextField
          label="Memory"
          value={form.memory}
          onValue={(memory) => onChange({ memory })}
          placeholder={format.size(defaults.maxmem)}
          hint={allowedWords(policy, "memory-size")}
          problem={problems.get("memory")}
        />
        <TextField
          label="CPUs"
          value={form.cpus}
          onValue={(cpus) => onChange({ cpus })}
          placeholder={String(defaults.vcpus)}
          hint={allowedWords(policy, "cpu-count")}
          problem={problems.get("cpus")}
        />
        <TextField
          label="Tags"
          value={form.tags}
          onValue={(tags) => onChange({ tags })}
          placeholder="production, team:web"
          problem={problems.get("tags")}
        />
      </div>
      <CheckField
        label="Start it after it is created"
        isChecked={form.starts}
        onCheck={(starts) => onChange({ starts })}
      />
    </fieldset>
  );
}

function Disks({ form, known, problems, policy, onChange }: FieldsProps) {
  const allowed = allowedWords(policy, "disk-size");
  return (
    <fieldset>
      <legend>Disks</legend>
      <div class="fields">
        <SelectField
          label="Disk template"
          value={form.template}
          onValue={(template) => onChange({ template, disks: form.disks.length ? form.disks : ["10G"] })}
          options={known.info.enabled_disk_templates.map((name) => ({
            value: name,
            text: TEMPLATES[name] ? `${name}: ${TEMPLATES[name]}` : name,
          }))}
          problem={problems.get("template")}
        />
        {form.template !== "diskless" &&
          form.disks.map((text, i) => (
            <div class="removable" key={i}>
              <TextField
                label={`Size of disk ${i}`}
                value={text}
                onValue={(size) => onChange({ disks: replaced(form.disks, i, size) })}
                placeholder="10G"
                hint={allowed}
                problem={problems.get(`disk ${i}`)}
              />
              {form.disks.length > 1 && (
                <button
                  type="button"
                  aria-label={`Remove disk ${i}`}
                  onClick={() => onChange({ disks: replaced(form.disks, i) })}
                >
                  ×
                </button>
              )}
            </div>
          ))}
      </div>
      {problems.get("disks") && <p class="problem">{problems.get("disks")}</p>}
      {form.template !== "diskless" && (
        <button type="button" class="quiet" onClick={() => onChange({ disks: [...form.disks, ""] })}>
          Add a disk
        </button>
      )}
    </fieldset>
  );
}

/** What a disk template is, in a few words. */
const TEMPLATES: Readonly<Record<string, string>> = {
  plain: "volumes of the node",
  drbd: "mirrored on a second node",
  file: "files of the node",
  sharedfile: "files that every node reaches",
  diskless: "no disks",
  blockdev: "block devices that exist",
  ext: "external storage",
};

function Nics({ form, known, problems, policy, onChange }: FieldsProps) {
  const { mode, link } = known.info.nicparams.default;
  const group = form.node ? nodes.rows.value.find((node) => node.name === form.node)?.group : form.group;
  return (
    <fieldset>
      <legend>NICs</legend>
      {form.nics.length === 0 && <p class="empty">No NICs.</p>}
      {form.nics.map((nic, i) => (
        <NicFields
          key={i}
          label={`NIC ${i}`}
          nic={nic}
          networks={known.networks}
          group={group ?? ""}
          bridge={`${mode} ${link}`}
          problem={problems.get(`nic ${i}`)}
          onChange={(changed) => onChange({ nics: replaced(form.nics, i, changed) })}
          onRemove={() => onChange({ nics: replaced(form.nics, i) })}
        />
      ))}
      {problems.get("nics") && <p class="problem">{problems.get("nics")}</p>}
      <button
        type="button"
        class="quiet"
        onClick={() => onChange({ nics: [...form.nics, { network: known.networks[0]?.name ?? "", addresses: [ANY] }] })}
      >
        Add a NIC
      </button>
      {allowedWords(policy, "nic-count") && <span class="hint"> {allowedWords(policy, "nic-count")}</span>}
    </fieldset>
  );
}

function Placement({ form, known, problems, onChange }: FieldsProps) {
  const usable = byName(nodes.rows.value).filter((node) => node.vm_capable && node.role !== "O" && node.role !== "D");
  const options = usable.map((node) => ({
    value: node.name,
    text: node.mfree === null ? node.name : `${node.name}: ${format.size(node.mfree)} of memory free`,
  }));
  return (
    <fieldset>
      <legend>Where</legend>
      <div class="fields">
        <SelectField
          label="Node"
          value={form.node}
          onValue={(node) => onChange({ node })}
          options={[{ value: "", text: "automatic: the allocator chooses" }, ...options]}
          problem={problems.get("node")}
        />
        {form.node === "" && known.groups.length > 1 && (
          <SelectField
            label="Node group"
            value={form.group}
            onValue={(group) => onChange({ group })}
            options={[{ value: "", text: "any" }, ...known.groups.map(({ name }) => ({ value: name, text: name }))]}
          />
        )}
        {form.node !== "" && isMirrored(form.template) && (
          <SelectField
            label="Secondary node"
            value={form.secondary}
            onValue={(secondary) => onChange({ secondary })}
            options={[
              { value: "", text: "automatic: the allocator chooses" },
              ...options.filter(({ value }) => value !== form.node),
            ]}
          />
        )}
      </div>
    </fieldset>
  );
}
