// The consoles of an instance: its serial line as a terminal, its screen by VNC.

import { effect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { applies, runPower } from "../actions.tsx";
import { may } from "../api.ts";
import { keep, kept } from "../kept.ts";
import { type Kind, missing } from "../logic/consoles.ts";
import { href } from "../logic/routes.ts";
import { instanceStatus, isRunning } from "../model.ts";
import { Bar, type Details, useConnection } from "../parts/consoles.tsx";
import { useObject, useTitle } from "../parts/hooks.ts";
import type { Screen } from "../parts/terminal.ts";
import { Badge, Failure, Loading } from "../parts/text.tsx";
import { route } from "../router.ts";
import { theme } from "../theme.ts";
import { GraphicalConsole } from "./graphical.tsx";

const FIELDS = ["uuid", "name", "status", "pnode", "pnode.group", "hypervisor", "hvparams", "tags", "project"];
const READ = "console-read"; // whether screen readers follow the terminal
const KINDS = { serial: "Serial line", vnc: "Screen" } as const;

export function ConsolePage({ name }: { name: string }) {
  useTitle(`Console of ${name}`);
  const { value, failure } = useObject<Details>("instance", FIELDS, name);
  return (
    <>
      <header class="head">
        <p class="crumbs">
          <a href={href(["instances"])}>Instances</a> / <a href={href(["instances", name])}>{name}</a> /
        </p>
        <h1>Console of {name}</h1>
        {value && <Badge status={instanceStatus(value.status)} />}
      </header>
      {failure && <Failure text={failure} />}
      {value === undefined && !failure && <Loading what={name} />}
      {value === null && <p class="empty">There is no instance named {name}. It may have been removed or renamed.</p>}
      {value && <Body instance={value} />}
    </>
  );
}

/** The console that the address asks for, or the only one that there is. */
function kindOf(instance: Details): Kind {
  const chosen = route.value.query.get("kind");
  if (chosen === "vnc" || chosen === "serial") return chosen;
  return missing(instance, "serial") && !missing(instance, "vnc") ? "vnc" : "serial";
}

function Body({ instance }: { instance: Details }) {
  if (!may("operate", instance)) {
    return <p class="empty">You may look at this instance, and not use its consoles: that needs the role operator.</p>;
  }
  if (typeof WebSocket === "undefined") {
    return <p class="empty">This browser has no WebSocket, which a console needs. Use gnt-instance console instead.</p>;
  }
  const kind = kindOf(instance);
  return (
    <>
      <nav class="chips" aria-label="Consoles">
        {(Object.keys(KINDS) as Kind[]).map((each) => (
          <a
            key={each}
            class="button"
            href={href(["instances", instance.name, "console"], { kind: each })}
            aria-current={each === kind ? "page" : undefined}
          >
            {KINDS[each]}
          </a>
        ))}
      </nav>
      <Chosen key={kind} instance={instance} kind={kind} />
    </>
  );
}

function Chosen({ instance, kind }: { instance: Details; kind: Kind }) {
  const [hasBegun, setBegun] = useState(false);
  const fault = missing(instance, kind);
  if (hasBegun)
    return kind === "serial" ? <SerialConsole instance={instance} /> : <GraphicalConsole instance={instance} />;
  if (fault) return <p class="empty">{fault}</p>;
  if (!isRunning(instance.status)) return <Stopped instance={instance} />;
  // From now on the page keeps what was shown, whatever becomes of the instance.
  setBegun(true);
  return null;
}

function Stopped({ instance }: { instance: Details }) {
  return (
    <div class="empty">
      <p>{instance.name} does not run, so it has no console.</p>
      <div class="actions">
        <button type="button" disabled={!applies("start", instance)} onClick={() => runPower("start", instance.name)}>
          Start
        </button>
      </div>
    </div>
  );
}

function SerialConsole({ instance }: { instance: Details }) {
  const { name } = instance;
  const place = useRef<HTMLDivElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const screen = useRef<Screen>(null);
  const [isRead, setRead] = useState(kept(READ) === "yes");
  const connection = useConnection(name, "serial", {
    data: (data, done) => screen.current?.write(data, done),
    opened: () => screen.current?.focus(),
  });
  useEffect(() => {
    let isGone = false;
    const stops: (() => void)[] = [];
    void import("../parts/terminal.ts").then(({ openTerminal }) => {
      if (isGone || !place.current) return;
      const opened = openTerminal(place.current, {
        isRead,
        onInput: (data) => connection.send(data),
        onLeave: () => leave.current?.focus(),
      });
      screen.current = opened;
      const dark = matchMedia("(prefers-color-scheme: dark)");
      const recolour = () => opened.recolour();
      dark.addEventListener("change", recolour);
      stops.push(
        effect(() => {
          void theme.value;
          requestAnimationFrame(recolour);
        }),
        () => dark.removeEventListener("change", recolour),
        () => opened.dispose(),
      );
      connection.connect();
    });
    return () => {
      isGone = true;
      for (const stop of stops) stop();
      screen.current = null;
    };
  }, [name]);
  return (
    <section class="console" aria-label={`Serial console of ${name}`}>
      <Bar connection={connection} instance={instance} leave={leave} />
      <div class="screen" ref={place} />
      <p class="hint">
        Enter shows a prompt; <kbd>Ctrl</kbd> <kbd>]</kbd> leaves the terminal, which has the Tab key. The guest takes
        the line for 80 columns and 24 rows. After an hour without anything typed it is closed.{" "}
        <label class="check">
          <input
            type="checkbox"
            checked={isRead}
            onChange={(event) => {
              setRead(event.currentTarget.checked);
              keep(READ, event.currentTarget.checked ? "yes" : "no");
              screen.current?.read(event.currentTarget.checked);
            }}
          />{" "}
          Read aloud what is printed (screen reader)
        </label>
      </p>
    </section>
  );
}
