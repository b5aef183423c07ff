// What the consoles of an instance share: the connection, the sentence about it, and its buttons.

import type { ComponentChildren, Ref } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api.ts";
import type { Guest, Kind, Report } from "../logic/consoles.ts";
import { isRunning } from "../model.ts";
import { Tunnel } from "../tunnel.ts";

export interface Details extends Guest {
  readonly uuid: string;
  readonly status: string | null;
  readonly pnode: string;
  readonly "pnode.group": string;
  readonly tags: readonly string[];
  readonly project: string;
}

type State = Report | { readonly state: "connecting" } | { readonly state: "lost"; readonly text: string };

const SILENT =
  "The server has refused the connection, or does not answer. If there is a proxy in between, it may not pass WebSockets.";
const BROKEN = "The connection to the server is lost.";

export interface Sink {
  data(data: Uint8Array, done: () => void): void;
  opened(): void;
}

export interface Connection {
  readonly state: State;
  connect(takesOver?: boolean): void;
  /** End the connection, for a reason that the page itself has. */
  close(text: string): void;
  send(data: Uint8Array): void;
}

export function useConnection(name: string, kind: Kind, sink: Sink): Connection {
  const tunnel = useRef<Tunnel>(null);
  const [state, setState] = useState<State>({ state: "connecting" });
  useEffect(() => () => tunnel.current?.close(), []);
  return {
    state,
    connect: (takesOver = false) => {
      tunnel.current?.close();
      setState({ state: "connecting" });
      const listener = {
        data: sink.data,
        report: (report: Report) => {
          if (report.state === "open") sink.opened();
          setState(report);
        },
        lost: (hasBegun: boolean) => {
          setState({ state: "lost", text: hasBegun ? BROKEN : SILENT });
          // A session that has ended is found out here: the request shows the log-in.
          void request("GET", "/2/session").catch(() => undefined);
        },
      };
      tunnel.current = new Tunnel(name, kind, listener, { takesOver });
    },
    close: (text) => {
      tunnel.current?.close();
      setState({ state: "ended", text, why: "" });
    },
    send: (data) => tunnel.current?.send(data),
  };
}

interface BarProps {
  readonly connection: Connection;
  readonly instance: Details;
  /** The first button, to which the keyboard goes from the console. */
  readonly leave: Ref<HTMLButtonElement>;
  readonly children?: ComponentChildren;
}

export function Bar({ connection, instance, leave, children }: BarProps) {
  const { state } = connection.state;
  const isOpen = state === "open";
  return (
    <div class="tools">
      <Words state={connection.state} instance={instance} />
      <div class="actions">
        {state === "used" && (
          <button type="button" class="danger" onClick={() => connection.connect(true)}>
            Take it over
          </button>
        )}
        {!isOpen && state !== "connecting" && (
          <button type="button" class="primary" onClick={() => connection.connect()}>
            {state === "ended" || state === "lost" ? "Connect again" : "Try again"}
          </button>
        )}
        {isOpen && children}
        <button
          type="button"
          ref={leave}
          disabled={!isOpen}
          onClick={() => connection.close("You have closed the console.")}
        >
          Close
        </button>
      </div>
    </div>
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
