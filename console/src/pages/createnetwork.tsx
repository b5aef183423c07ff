// A new network: subnets and their pools, and the node groups that it is connected to. The server shows the plan first.

import { useState } from "preact/hooks";
import { explanation, may, request } from "../api.ts";
import { parseRange } from "../logic/addresses.ts";
import { tagList } from "../logic/creation.ts";
import { href } from "../logic/routes.ts";
import { parseCount } from "../logic/sizes.ts";
import { byName } from "../model.ts";
import { outcome, plan } from "../outcome.ts";
import { SelectField, TextField, replaced } from "../parts/form.tsx";
import { useLists, useTitle } from "../parts/hooks.ts";
import { notify } from "../parts/notices.tsx";
import { Failure } from "../parts/text.tsx";
import { go } from "../router.ts";
import { groups } from "../store.ts";

interface SubnetForm {
  readonly cidr: string;
  readonly gateway: string;
  readonly pool: string; // a range; empty: no pool
  readonly poolName: string;
}

interface NetworkForm {
  readonly name: string;
  readonly subnets: readonly SubnetForm[];
  readonly group: string; // empty: not connected
  readonly mode: string;
  readonly link: string;
  readonly type: string; // of the segment; empty: none
  readonly physical: string;
  readonly segment: string; // empty: the next free id
  readonly description: string;
  readonly tags: string;
}

const EMPTY_SUBNET: SubnetForm = { cidr: "", gateway: "", pool: "", poolName: "" };
const EMPTY: NetworkForm = {
  name: "",
  subnets: [EMPTY_SUBNET],
  group: "",
  mode: "bridged",
  link: "",
  type: "",
  physical: "",
  segment: "",
  description: "",
  tags: "",
};
const TYPES = ["vlan", "vxlan", "gre", "geneve"];

function body(form: NetworkForm): Record<string, unknown> {
  const subnets = form.subnets.filter((subnet) => subnet.cidr.trim());
  const segment = parseCount(form.segment);
  return {
    network_name: form.name.trim(),
    subnets: subnets.map((subnet) => ({ cidr: subnet.cidr.trim(), gateway: subnet.gateway.trim() })),
    pools: subnets
      .filter((subnet) => subnet.pool.trim())
      .map((subnet) => ({ range: subnet.pool.trim(), name: subnet.poolName.trim() })),
    description: form.description.trim(),
    tags: tagList(form.tags),
    ...(form.type && {
      network_type: form.type,
      ...(form.type === "vlan" && form.physical.trim() && { physical_network: form.physical.trim() }),
      ...(segment === null ? { segmented: true } : { segment }),
    }),
  };
}

function problemsOf(form: NetworkForm): Map<string, string> {
  const problems = new Map<string, string>();
  if (!form.name.trim()) problems.set("name", "A network needs a name.");
  for (const [i, subnet] of form.subnets.entries()) {
    const cidr = subnet.cidr.trim();
    if (cidr && !(cidr.includes("/") && parseRange(cidr))) {
      problems.set(`cidr ${i}`, "Write a CIDR such as 192.0.2.0/24 or 2001:db8::/64.");
    }
    if (subnet.pool.trim() && !parseRange(subnet.pool.trim())) {
      problems.set(`pool ${i}`, "Write a range such as 192.0.2.10-192.0.2.99.");
    }
  }
  if (form.group && !form.link.trim()) problems.set("link", "What is the network connected to?");
  if (form.segment.trim() && parseCount(form.segment) === null) problems.set("segment", "Write a whole number.");
  return problems;
}

export function CreateNetworkPage() {
  useTitle("New network");
  return (
    <>
      <header class="head">
        <p class="crumbs">
          <a href={href(["networks"])}>Networks</a> /
        </p>
        <h1>New network</h1>
      </header>
      {may("wire") ? <Creation /> : <Failure text="You may look at this cluster, and not create networks." />}
    </>
  );
}

interface Planned {
  readonly form: NetworkForm; // that the plan is of
  readonly lines: readonly string[];
}

function Creation() {
  useLists(groups);
  const [form, setForm] = useState(EMPTY);
  const [planned, setPlanned] = useState<Planned | null>(null);
  const [busy, setBusy] = useState<"" | "plan" | "create">("");
  const [refusal, setRefusal] = useState("");
  const [isTried, setTried] = useState(false);
  const own = problemsOf(form);
  const shown = new Map(own);
  if (!isTried) for (const field of ["name", "link"]) shown.delete(field);

  const change = (changes: Partial<NetworkForm>) => {
    setForm((present) => ({ ...present, ...changes }));
    setRefusal("");
  };

  async function work(what: "plan" | "create", run: () => Promise<void>): Promise<void> {
    setTried(true);
    if (own.size || busy) return;
    setBusy(what);
    setRefusal("");
    try {
      await run();
    } catch (error) {
      setRefusal(explanation(error));
    } finally {
      setBusy("");
    }
  }

  const show = (event: Event) => {
    event.preventDefault();
    setPlanned(null);
    void work("plan", async () => setPlanned({ form, lines: await plan("POST", "/2/networks", body(form)) }));
  };

  const create = () => void work("create", () => carryOut(form));

  const isCurrent = planned?.form === form;
  return (
    <form class="form" onSubmit={show} noValidate>
      {refusal && <Failure text={refusal} />}
      <Fields form={form} problems={shown} onChange={change} />
      <div class="buttons">
        <button type="submit" class={isCurrent ? "" : "primary"} disabled={busy !== ""}>
          {busy === "plan" ? "Planning…" : "Show the plan"}
        </button>
      </div>
      <section class="plan" aria-live="polite">
        {isCurrent && (
          <>
            <h2>The plan</h2>
            <ol>
              {planned.lines.map((line, i) => (
                <li key={i}>{line}</li>
              ))}
              {form.group && (
                <li>
                  connect it to node group {form.group}, {form.mode} {form.link.trim()}
                </li>
              )}
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

/** Create the network, then connect it; a network that cannot be connected stays, and its page says why. */
async function carryOut(form: NetworkForm): Promise<void> {
  const name = form.name.trim();
  await outcome(await request<number>("POST", "/2/networks", body(form)));
  go(href(["networks", name]));
  notify("good", `Network ${name} is created.`);
  if (!form.group) return;
  const connection = { group_name: form.group, network_mode: form.mode, network_link: form.link.trim() };
  try {
    await outcome(await request<number>("PUT", `/2/networks/${encodeURIComponent(name)}/connect`, connection));
  } catch (error) {
    notify("bad", `${name} is not connected to node group ${form.group}: ${explanation(error)}`);
  }
}

interface FieldsProps {
  form: NetworkForm;
  problems: ReadonlyMap<string, string>;
  onChange: (changes: Partial<NetworkForm>) => void;
}

function Fields({ form, problems, onChange }: FieldsProps) {
  return (
    <>
      <fieldset>
        <legend>Network</legend>
        <div class="fields">
          <TextField
            label="Name"
            value={form.name}
            onValue={(name) => onChange({ name })}
            problem={problems.get("name")}
            isRequired
            isFocused
          />
          <TextField
            label="Description"
            value={form.description}
            onValue={(description) => onChange({ description })}
            placeholder="none"
          />
          <TextField label="Tags" value={form.tags} onValue={(tags) => onChange({ tags })} placeholder="none" />
        </div>
      </fieldset>
      <Subnets form={form} problems={problems} onChange={onChange} />
      <Connection form={form} problems={problems} onChange={onChange} />
      <Segment form={form} problems={problems} onChange={onChange} />
    </>
  );
}

function Subnets({ form, problems, onChange }: FieldsProps) {
  return (
    <fieldset>
      <legend>Subnets</legend>
      {form.subnets.length === 0 && <p class="empty">None: the network is layer 2 only.</p>}
      {form.subnets.map((subnet, i) => {
        const edit = (changes: Partial<SubnetForm>) =>
          onChange({ subnets: replaced(form.subnets, i, { ...subnet, ...changes }) });
        return (
          <div class="nic" key={i} role="group" aria-label={`Subnet ${i}`}>
            <div class="nic-head">
              <h3>Subnet {i}</h3>
              <button
                type="button"
                class="quiet"
                aria-label={`Remove subnet ${i}`}
                onClick={() => onChange({ subnets: replaced(form.subnets, i) })}
              >
                remove
              </button>
            </div>
            <div class="fields">
              <TextField
                label="CIDR"
                value={subnet.cidr}
                onValue={(cidr) => edit({ cidr })}
                placeholder="192.0.2.0/24"
                problem={problems.get(`cidr ${i}`)}
              />
              <TextField
                label="Gateway"
                value={subnet.gateway}
                onValue={(gateway) => edit({ gateway })}
                placeholder="none"
              />
              <TextField
                label="Pool"
                value={subnet.pool}
                onValue={(pool) => edit({ pool })}
                placeholder="192.0.2.10-192.0.2.99"
                hint="Addresses that instances may get"
                problem={problems.get(`pool ${i}`)}
              />
              <TextField
                label="Name of the pool"
                value={subnet.poolName}
                onValue={(poolName) => edit({ poolName })}
                placeholder="none"
              />
            </div>
          </div>
        );
      })}
      <button type="button" class="quiet" onClick={() => onChange({ subnets: [...form.subnets, EMPTY_SUBNET] })}>
        Add a subnet
      </button>
    </fieldset>
  );
}

function Connection({ form, problems, onChange }: FieldsProps) {
  const names = byName(groups.rows.value).map((group) => group.name);
  return (
    <fieldset>
      <legend>Connection</legend>
      <div class="fields">
        <SelectField
          label="Node group"
          value={form.group}
          onValue={(group) => onChange({ group })}
          options={[{ value: "", text: "none yet" }, ...names.map((name) => ({ value: name, text: name }))]}
          hint="More can be connected on the page of the network."
        />
        {form.group !== "" && (
          <>
            <SelectField
              label="Mode"
              value={form.mode}
              onValue={(mode) => onChange({ mode })}
              options={["bridged", "routed"].map((mode) => ({ value: mode, text: mode }))}
            />
            <TextField
              label={form.mode === "bridged" ? "Bridge" : "Routing table"}
              value={form.link}
              onValue={(link) => onChange({ link })}
              placeholder={form.mode === "bridged" ? "br0" : "100"}
              hint="It has to exist on each node of the group."
              problem={problems.get("link")}
            />
          </>
        )}
      </div>
    </fieldset>
  );
}

function Segment({ form, problems, onChange }: FieldsProps) {
  return (
    <fieldset>
      <legend>Segment</legend>
      <div class="fields">
        <SelectField
          label="Network type"
          value={form.type}
          onValue={(type) => onChange({ type })}
          options={[{ value: "", text: "none" }, ...TYPES.map((type) => ({ value: type, text: type }))]}
        />
        {form.type === "vlan" && (
          <TextField
            label="Physical network"
            value={form.physical}
            onValue={(physical) => onChange({ physical })}
            placeholder="the first with a free id"
          />
        )}
        {form.type !== "" && (
          <TextField
            label="Segmentation id"
            value={form.segment}
            onValue={(segment) => onChange({ segment })}
            placeholder="the next free one"
            problem={problems.get("segment")}
          />
        )}
      </div>
    </fieldset>
  );
}
