// A new instance: the form, the plan that the server makes of it, and then the instance.

import { useEffect, useMemo, useState } from "preact/hooks";
import { explanation, maySome, query, request } from "../api.ts";
import { draft } from "../draft.ts";
import {
  type CreationForm,
  type Problems,
  creationBody,
  creationProblems,
  emptyForm,
  fieldOf,
} from "../logic/creation.ts";
import type { Policy } from "../logic/policy.ts";
import { href } from "../logic/routes.ts";
import { byName } from "../model.ts";
import { outcome, plan } from "../outcome.ts";
import { CreationFields, type GroupChoice, type Info, type Known } from "../parts/creationfields.tsx";
import { useLists, useReading, useTitle } from "../parts/hooks.ts";
import { readNetworks } from "../parts/nicfields.tsx";
import { track } from "../parts/notices.tsx";
import { Failure, Loading } from "../parts/text.tsx";
import { go, route } from "../router.ts";
import { instances, nodes } from "../store.ts";

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
      {!maySome("populate") && <Failure text="You may look at this cluster, and not create instances." />}
      {failure && <Failure text={failure} />}
      {maySome("populate") && !value && !failure && <Loading what="what an instance can have" />}
      {maySome("populate") && value && <Creation known={value} />}
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
      <CreationFields form={form} known={known} problems={problems} policy={policy} onChange={change} />
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
