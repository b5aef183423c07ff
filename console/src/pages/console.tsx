// A console of an instance: the serial line as a terminal.

import { effect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { applies, runPower } from "../actions.tsx";
import { mayWrite, request } from "../api.ts";
import { keep, kept } from "../kept.ts";
import { type Guest, type Kind, type Report, missing } from "../logic/consoles.ts";
import { href } from "../logic/routes.ts";
import { instanceStatus, isRunning } from "../model.ts";
import { useObject, useTitle } from "../parts/hooks.ts";
import type { Screen } from "../parts/terminal.ts";
import { Badge, Failure, Loading } from "../parts/text.tsx";
import { theme } from "../theme.ts";
import { Tunnel } from "../tunnel.ts";

const FIELDS = ["name", "status", "pnode", "hypervisor", "hvparams"];
const READ = "console-read"; // whether screen readers follow the terminal

interface Details extends Guest {
  readonly status: string | null;
  readonly pnode: string;
}

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

function Body({ instance }: { instance: Details }) {
  const kind: Kind = "serial";
  const [hasBegun, setBegun] = useState(false);
  const fault = missing(instance, kind);
  if (!mayWrite()) return <p class="empty">Your user may look, and consoles need the option write.</p>;
  if (typeof WebSocket === "undefined") {
    return <p class="empty">This browser has no WebSocket, which a console needs. Use gnt-instance console instead.</p>;
  }
  if (hasBegun) return <SerialConsole instance={instance} />;
  if (fault) return <p class="empty">{fault}</p>;
  if (!isRunning(instance.status)) return <Stopped instance={instance} />;
  // From now on the page keeps what was printed, whatever becomes of the instance.
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

type State = Report | { readonly state: "connecting" } | { readonly state: "lost"; readonly text: string };

const SILENT =
  "The server has refused the connection, or does not answer. If there is a proxy in between, it may not pass WebSockets.";
const BROKEN = "The connection to the server is lost.";

function SerialConsole({ instance }: { instance: Details }) {
  const { name } = instance;
  const place = useRef<HTMLDivElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const screen = useRef<Screen>(null);
  const tunnel = useRef<Tunnel>(null);
  const [state, setState] = useState<State>({ state: "connecting" });
  const [isRead, setRead] = useState(kept(READ) === "yes");
  const connect = (takesOver = false) => {
    tunnel.current?.close();
    setState({ state: "connecting" });
    tunnel.current = new Tunnel(
      name,
      "serial",
      {
        data: (data, done) => screen.current?.write(data, done),
        report: (report) => {
          setState(report);
          if (report.state === "open") screen.current?.focus();
        },
        lost: (hasBegun) => {
          setState({ state: "lost", text: hasBegun ? BROKEN : SILENT });
          // A session that has ended is found out here: the request shows the log-in.
          void request("GET", "/2/session").catch(() => undefined);
        },
      },
      { takesOver },
    );
  };
  useEffect(() => {
    let isGone = false;
    const stops: (() => void)[] = [];
    void import("../parts/terminal.ts").then(({ openTerminal }) => {
      if (isGone || !place.current) return;
      const opened = openTerminal(place.current, {
        isRead,
        onInput: (data) => tunnel.current?.send(data),
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
      connect();
    });
    return () => {
      isGone = true;
      tunnel.current?.close();
      for (const stop of stops) stop();
      screen.current = null;
    };
  }, [name]);
  return (
    <section class="console" aria-label={`Serial console of ${name}`}>
      <div class="tools">
        <Words state={state} instance={instance} />
        <div class="actions">
          {state.state === "used" && (
            <button type="button" class="danger" onClick={() => connect(true)}>
              Take it over
            </button>
          )}
          {state.state !== "open" && state.state !== "connecting" && (
            <button type="button" class="primary" onClick={() => connect()}>
              {state.state === "ended" || state.state === "lost" ? "Connect again" : "Try again"}
            </button>
          )}
          <button
            type="button"
            ref={leave}
            disabled={state.state !== "open"}
            onClick={() => {
              tunnel.current?.close();
              setState({ state: "ended", text: "You have closed the console.", why: "" });
            }}
          >
            Close
          </button>
        </div>
      </div>
      <div class="screen" ref={place} />
      <p class="hint">
        Enter shows a prompt; <kbd>Ctrl</kbd> <kbd>]</kbd> leaves the terminal, which has the Tab key. The guest takes
        the line for {80} columns and {24} rows. After an hour without anything typed it is closed.{" "}
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

/** What is with the connection, in a sentence; it follows the instance. */
function Words({ state, instance }: { state: State; instance: Details }) {
  const { name, pnode } = instance;
  const present = isRunning(instance.status) ? `${name} runs on ${pnode}.` : `${name} does not run.`;
  switch (state.state) {
    case "connecting":
      return <p role="status">Connecting…</p>;
    case "open":
      return (
        <p role="status">
          <span class="badge good">connected</span> to {name} on {state.node}
        </p>
      );
    case "used":
      return (
        <p role="status">
          {state.user} has this console open, and only one user can. Whoever has it loses it if you take it over.
        </p>
      );
    case "refused":
      return <p role="alert">{state.text}</p>;
    default:
      return (
        <p role="alert">
          {state.text} {present}
        </p>
      );
  }
}
