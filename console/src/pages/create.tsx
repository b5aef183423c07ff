// A new instance: the form, the plan that the server makes of it, and then the instance.

import { useEffect, useMemo, useState } from "preact/hooks";
import { explanation, mayWrite, query, request } from "../api.ts";
import { draft } from "../draft.ts";
import {
  ANY,
  type CreationForm,
  type Problems,
  creationBody,
  creationProblems,
  emptyForm,
  fieldOf,
  isMirrored,
} from "../logic/creation.ts";
import * as format from "../logic/format.ts";
import { type Policy, allowedWords } from "../logic/policy.ts";
import { href } from "../logic/routes.ts";
import { byName } from "../model.ts";
import { outcome, plan } from "../outcome.ts";
import { CheckField, SelectField, TextField, replaced } from "../parts/form.tsx";
import { useLists, useReading, useTitle } from "../parts/hooks.ts";
import { type NetworkChoice, NicFields, readNetworks } from "../parts/nicfields.tsx";
import { track } from "../parts/notices.tsx";
import { Failure, Loading } from "../parts/text.tsx";
import { go, route } from "../router.ts";
import { instances, nodes } from "../store.ts";

interface Info {
  readonly enabled_disk_templates: readonly string[];
  readonly ipolicy: Policy;
  readonly beparams: { readonly default: { readonly maxmem: number; readonly vcpus: number } };
  readonly nicparams: { readonly default: { readonly mode: string; readonly link: string } };
}

interface GroupChoice {
  readonly name: string;
  readonly ipolicy: Policy | null;
}

interface Known {
  readonly info: Info;
  readonly systems: readonly string[];
  readonly groups: readonly GroupChoice[];
  readonly networks: readonly NetworkChoice[];
}

async function read(): Promise<Known> {
  const [info, systems, groups, networks] = await Promise.all([
    request<Info>("GET", "/2/info"),
    request<string[]>("GET", "/2/os"),
    query<GroupChoice>("group", ["name", "ipolicy"]),
    readNetworks(),
  ]);
  return { info, systems, groups: byName(groups), networks };
}

export function CreatePage() {
  useTitle("New instance");
  useLists(nodes);
  const { value, failure } = useReading(read, []);
  return (
    <>
      <header class="head">
        <p class="crumbs">
          <a href={href(["instances"])}>Instances</a> /
        </p>
        <h1>New instance</h1>
      </header>
      {!mayWrite() && <Failure text="You may look at this cluster, and not create instances." />}
      {failure && <Failure text={failure} />}
      {mayWrite() && !value && !failure && <Loading what="what an instance can have" />}
      {mayWrite() && value && <Creation known={value} />}
    </>
  );
}

/** The form at its first display: what the link names, else the network that most people want. */
function firstForm(known: Known): CreationForm {
  const { query: given } = route.peek();
  const network = given.get("network") ?? "";
  const present = draft.peek();
  if (present && !network) return present;
  const usual = known.networks.find((each) => each.group_list.length > 0 && each.free_count > 0);
  const first = emptyForm(network || (usual?.name ?? ""), given.get("address") ?? "");
  if (present) return { ...present, nics: first.nics };
  const template = known.info.enabled_disk_templates[0] ?? "diskless";
  return { ...first, template, os: known.systems[0] ?? "" };
}

interface Planned {
  readonly form: CreationForm; // that the plan is of
  readonly lines: readonly string[];
}

/** Where the work on the form is: a refusal stays until the next attempt. */
interface Progress {
  readonly busy: "" | "plan" | "create";
  readonly refusal: string;
}

function Creation({ known }: { known: Known }) {
  const [form, setForm] = useState(() => firstForm(known));
  const [planned, setPlanned] = useState<Planned | null>(null);
  const [{ busy, refusal }, setProgress] = useState<Progress>({ busy: "", refusal: "" });
  const [isTried, setTried] = useState(false);
  const names = useMemo(() => new Set(instances.rows.value.map((row) => row.name)), [instances.rows.value]);
  const policy = policyOf(known, form);
  const own = creationProblems(form, { policy, names });
  const refused = refusal ? fieldOf(refusal, form) : "";
  const problems = shownProblems(form, own, { isTried, refusal, refused });

  useEffect(() => {
    draft.value = form;
  }, [form]);

  const change = (changes: Partial<CreationForm>) => {
    setForm((present) => ({ ...present, ...changes }));
    setProgress({ busy: "", refusal: "" });
  };

  async function work(what: "plan" | "create", run: () => Promise<void>): Promise<void> {
    setTried(true);
    if (own.size || busy) return;
    setProgress({ busy: what, refusal: "" });
    try {
      await run();
      setProgress({ busy: "", refusal: "" });
    } catch (error) {
      setProgress({ busy: "", refusal: explanation(error) });
    }
  }

  const show = (event: Event) => {
    event.preventDefault();
    setPlanned(null);
    void work("plan", async () => {
      setPlanned({ form, lines: await plan("POST", "/2/instances", creationBody(form)) });
    });
  };

  const create = () =>
    void work("create", async () => {
      const job = await request<number>("POST", "/2/instances", creationBody(form));
      track(job);
      // The form stays until the instance exists: if the job fails, a person goes back and changes it.
      outcome(job).then(
        () => {
          if (draft.peek() === form) draft.value = null;
        },
        () => undefined,
      );
      go(href(["jobs", job]));
    });

  const isCurrent = planned?.form === form;
  return (
    <form class="form" onSubmit={show} noValidate>
      {refusal && !isShownBeside(refused, form) && <Failure text={refusal} />}
      <Fields form={form} known={known} problems={problems} policy={policy} onChange={change} />
      <div class="buttons">
        <button type="submit" class={isCurrent ? "" : "primary"} disabled={busy !== ""}>
          {busy === "plan" ? "Planning…" : "Show the plan"}
        </button>
      </div>
      <section class="plan" aria-live="polite">
        {isCurrent && (
          <>
            <h2>The plan</h2>
            <p class="about">
              Nothing is made yet. The server decides again when you press Create: another person may take an address or
              memory meanwhile.
            </p>
            <ol>
              {planned.lines.map((line, i) => (
                <li key={i}>{line}</li>
              ))}
            </ol>
            <div class="buttons">
              <button type="button" class="primary" disabled={busy !== ""} onClick={create}>
                {busy === "create" ? "Creating…" : `Create ${form.name.trim()}`}
              </button>
            </div>
          </>
        )}
      </section>
    </form>
  );
}

/** The policy of the group that the instance goes to; that of the cluster if several groups may take it. */
function policyOf(known: Known, form: CreationForm): Policy | null {
  const chosen = form.node ? (nodes.rows.value.find((node) => node.name === form.node)?.group ?? "") : form.group;
  const only = known.groups.length === 1 ? known.groups[0]?.name : "";
  const group = known.groups.find((each) => each.name === (chosen || only));
  return group ? group.ipolicy : known.info.ipolicy;
}

interface Attempt {
  readonly isTried: boolean;
  readonly refusal: string;
  readonly refused: string;
}

/** Problems to display: of what is typed at once, of what is empty only after the first attempt. */
function shownProblems(form: CreationForm, own: Problems, { isTried, refusal, refused }: Attempt): Problems {
  const shown = new Map(own);
  if (!isTried && !form.name.trim()) shown.delete("name");
  if (!isTried) {
    for (const field of own.keys()) if (field.startsWith("nic ")) shown.delete(field);
  }
  if (refused && !shown.has(refused)) shown.set(refused, refusal);
  return shown;
}

function isShownBeside(field: string, form: CreationForm): boolean {
  const [kind, index] = field.split(" ");
  if (kind === "nic") return Number(index) < form.nics.length;
  if (kind === "disk") return form.template !== "diskless" && Number(index) < form.disks.length;
  return field !== "";
}

interface FieldsProps {
  form: CreationForm;
  known: Known;
  problems: Problems;
  policy: Policy | null;
  onChange: (changes: Partial<CreationForm>) => void;
}

function Fields(props: FieldsProps) {
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
