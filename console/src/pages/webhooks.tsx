// Webhooks: the receivers of events and how far each is, and what administrators can do about them.

import { useEffect, useRef, useState } from "preact/hooks";
import { may, request } from "../api.ts";
import { followWebhooks } from "../events.ts";
import * as format from "../logic/format.ts";
import {
  type Draft,
  EMPTY,
  type Trust,
  type Webhook,
  addition,
  draftOf,
  lacksAuthorities,
  modification,
  problems,
  status,
} from "../logic/webhooks.ts";
import { ChangeDialog } from "../parts/change.tsx";
import { openDialog } from "../parts/dialog.tsx";
import { AreaField, CheckField, SelectField, TextField } from "../parts/form.tsx";
import { useAnswer, useTitle } from "../parts/hooks.ts";
import { notify } from "../parts/notices.tsx";
import { SecretDialog } from "../parts/secret.tsx";
import { Ago, Badge, Fact, Facts, Failure, Loading, None } from "../parts/text.tsx";
import { version } from "../store.ts";

const PATH = "/2/webhooks";

function readAgain(): void {
  const turn = version("webhook", "");
  turn.value = (turn.peek() ?? 0) + 1;
}

function pathOf(hook: Webhook, action = ""): string {
  return `${PATH}/${encodeURIComponent(hook.name)}${action && `/${action}`}`;
}

export function WebhooksPage() {
  useTitle("Webhooks");
  const { value, failure } = useAnswer<readonly Webhook[]>(PATH, [["webhook", ""]]);
  useEffect(() => followWebhooks(readAgain), []);
  return (
    <>
      <header class="head">
        <h1>Webhooks</h1>
        <p class="about" role="status">
          {value && format.plural(value.length, "webhook")}
        </p>
        {may("administer") && (
          <div class="actions" role="group" aria-label="Actions">
            <button type="button" class="primary" onClick={() => openDialog(<AddDialog />)}>
              Add webhook…
            </button>
          </div>
        )}
      </header>
      <p class="intro">
        A webhook posts what changes in the cluster to a program elsewhere, its receiver: signed, in order, and again
        until the receiver accepts it.
      </p>
      {failure && <Failure text={failure} />}
      {!value && !failure && <Loading what="the webhooks" />}
      {value?.length === 0 && <p class="empty">There are no webhooks.</p>}
      {value?.map((hook) => (
        <WebhookPart key={hook.uuid} hook={hook} />
      ))}
    </>
  );
}

function WebhookPart({ hook }: { hook: Webhook }) {
  return (
    <section class="subnet" aria-label={hook.name}>
      <div class="pool-head">
        <h2>{hook.name}</h2>
        <Badge status={status(hook)} />
        <div class="actions" role="group" aria-label={hook.name}>
          {hook.enabled && (
            <button type="button" onClick={() => openDialog(<TestDialog hook={hook} />)}>
              Test…
            </button>
          )}
          <button type="button" onClick={() => openDialog(<ModifyDialog hook={hook} />)}>
            Change…
          </button>
          <button type="button" onClick={() => openDialog(<RenewDialog hook={hook} />)}>
            New secret…
          </button>
          <button type="button" onClick={() => askSending(hook)}>
            {hook.enabled ? "Disable…" : "Enable…"}
          </button>
          <button type="button" class="danger" onClick={() => askRemoval(hook)}>
            Remove…
          </button>
        </div>
      </div>
      {problems(hook).map((sentence) => (
        <p key={sentence} class="failure">
          {sentence}
        </p>
      ))}
      <Facts isWide>
        <Fact name="Receiver">{hook.origin}</Fact>
        <Fact name="Events">{hook.events.join(", ") || "all"}</Fact>
        <Fact name="Behind">{hook.lag ? format.plural(hook.lag, "change") : <None>nothing</None>}</Fact>
        {hook.waiting_since !== null && (
          <Fact name="First waiting event">
            <Ago time={hook.waiting_since} />
            {!hook.enabled && hook.failure && `: ${hook.failure}`}
          </Fact>
        )}
        <Fact name="Added">
          <Ago time={hook.ctime} />
        </Fact>
      </Facts>
    </section>
  );
}

interface Created {
  readonly name: string;
  readonly secret: string;
}

function openSecret(created: Created | null): void {
  if (!created) return;
  openDialog(
    <SecretDialog title={`The secret of ${created.name}`} text={created.secret}>
      <p>
        The receiver checks the signatures of requests with it. This is the only time that it is displayed; on the
        master, <code>gantry webhook secret</code> prints it.
      </p>
    </SecretDialog>,
  );
}

function AddDialog() {
  const [name, setName] = useState("");
  const [draft, setDraft] = useState(EMPTY);
  const created = useRef<Created | null>(null);
  return (
    <ChangeDialog
      title="Add a webhook"
      action="Add"
      isReady={name.trim() !== "" && draft.url.trim() !== "" && !lacksAuthorities(draft)}
      onDone={() => openSecret(created.current)}
      run={async () => {
        created.current = await request<Created>("POST", PATH, addition(name, draft));
      }}
    >
      <TextField
        label="Name"
        hint="Small letters, digits and . _ -; for example the program that receives the events"
        value={name}
        onValue={setName}
        isRequired
        isFocused
      />
      <Fields draft={draft} onDraft={setDraft} isNew />
    </ChangeDialog>
  );
}

function ModifyDialog({ hook }: { hook: Webhook }) {
  const [draft, setDraft] = useState(() => draftOf(hook));
  const body = modification(hook, draft);
  return (
    <ChangeDialog
      title={`Change webhook ${hook.name}`}
      action="Save"
      isReady={Object.keys(body).length > 0 && !lacksAuthorities(draft)}
      run={async (send) => {
        await send("PUT", pathOf(hook, "modify"), body);
      }}
    >
      <p>The receiver gets the events after those that it has.</p>
      <Fields draft={draft} onDraft={setDraft} />
    </ChangeDialog>
  );
}

const SYSTEM = { value: "system", text: "of the system" };
const OWN = { value: "own", text: "of the site, in PEM" };
const KEPT = { value: "kept", text: "as before" };

function Fields({ draft, onDraft, isNew = false }: { draft: Draft; onDraft: (draft: Draft) => void; isNew?: boolean }) {
  const set = (values: Partial<Draft>) => onDraft({ ...draft, ...values });
  return (
    <>
      <TextField
        label="URL"
        hint="It may have a secret, so it is not displayed again"
        placeholder={isNew ? "https://tickets.example/hooks/gantry" : "as before"}
        value={draft.url}
        onValue={(url) => set({ url })}
        isRequired={isNew}
      />
      <TextField
        label="Events"
        hint="Kinds of objects, or changes of a kind: instance, job.error, network.removed"
        placeholder="all"
        value={draft.events}
        onValue={(events) => set({ events })}
      />
      <SelectField
        label="Authorities of the receiver's certificate"
        value={draft.trust}
        onValue={(trust) => set({ trust: trust as Trust })}
        options={isNew ? [SYSTEM, OWN] : [KEPT, SYSTEM, OWN]}
      />
      {draft.trust === "own" && (
        <AreaField
          label="Certificates"
          placeholder="-----BEGIN CERTIFICATE-----"
          value={draft.authorities}
          onValue={(authorities) => set({ authorities })}
          isRequired
        />
      )}
      {(isNew || draft.url) && (
        <CheckField
          label="Allow a URL without TLS on another machine"
          isChecked={draft.isWithoutTls}
          onCheck={(isWithoutTls) => set({ isWithoutTls })}
        />
      )}
    </>
  );
}

const TEST_SECONDS = 30;
/** A failure before that may be one of an earlier event, whose next attempt succeeds. */
const PATIENCE_SECONDS = 10;

function TestDialog({ hook }: { hook: Webhook }) {
  return (
    <ChangeDialog
      title={`Test webhook ${hook.name}?`}
      action="Send the test"
      run={async (send) => {
        const before = await send("POST", pathOf(hook, "test"));
        await acceptance(hook, Number(before));
        notify("good", `The receiver of webhook ${hook.name} has accepted the test`);
      }}
    >
      <p>
        The receiver gets an event about the webhook itself. It waits behind all events that the receiver has not
        accepted yet.
      </p>
    </ChangeDialog>
  );
}

/** Wait until the receiver has more than the events up to a serial; an error says why it does not. */
async function acceptance(hook: Webhook, serial: number): Promise<void> {
  for (let second = 0; second < TEST_SECONDS; second += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const row = (await request<readonly Webhook[]>("GET", PATH)).find((each) => each.uuid === hook.uuid);
    if (!row) throw new Error(`Webhook ${hook.name} was removed.`);
    if (row.position > serial) return readAgain();
    if (row.failure && second >= PATIENCE_SECONDS) {
      readAgain();
      throw new Error(`The receiver does not accept events: ${row.failure}`);
    }
  }
  throw new Error(
    `The test was not sent within ${TEST_SECONDS} s. It waits behind all earlier events; does gantry-rapi run on the master?`,
  );
}

function RenewDialog({ hook }: { hook: Webhook }) {
  const created = useRef<Created | null>(null);
  return (
    <ChangeDialog
      title={`Make a new secret for ${hook.name}?`}
      action="Make a new secret"
      keep="Keep it"
      onDone={() => openSecret(created.current)}
      run={async () => {
        created.current = await request<Created>("POST", pathOf(hook, "secret"));
      }}
    >
      <p>
        For a day, requests are signed with the present secret too, so that the receiver can change it without losing an
        event.
      </p>
    </ChangeDialog>
  );
}

function askSending(hook: Webhook): void {
  openDialog(
    <ChangeDialog
      title={hook.enabled ? `Disable webhook ${hook.name}?` : `Enable webhook ${hook.name}?`}
      action={hook.enabled ? "Disable" : "Enable"}
      run={async (send) => {
        await send("PUT", pathOf(hook, "modify"), { enabled: !hook.enabled });
      }}
    >
      <p>
        {hook.enabled
          ? "Nothing is sent until it is enabled again. It then continues with the events after those that the receiver has."
          : "The receiver gets the events after those that it has, as far as the journal keeps them."}
      </p>
    </ChangeDialog>,
  );
}

function askRemoval(hook: Webhook): void {
  openDialog(
    <ChangeDialog
      title={`Remove webhook ${hook.name}?`}
      action="Remove"
      keep="Keep it"
      isDangerous
      run={async (send) => {
        await send("DELETE", pathOf(hook));
      }}
    >
      <p>The receiver gets nothing any more, and how far it is will be forgotten. This cannot be undone.</p>
    </ChangeDialog>,
  );
}
