// The screen of an instance, by VNC, as a part of its console's page. The guest's VNC server asks for its own password.

import { useEffect, useRef, useState } from "preact/hooks";
import { Bar, type Details, useConnection } from "../parts/consoles.tsx";
import type { Events, Viewer } from "../parts/screen.ts";

type Opener = (place: HTMLElement, label: string, events: Events) => Viewer;

export function GraphicalConsole({ instance }: { instance: Details }) {
  const { name } = instance;
  const place = useRef<HTMLDivElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const viewer = useRef<Viewer>(null);
  const opener = useRef<Opener>(null);
  const [question, setQuestion] = useState<readonly string[]>([]);
  const connection = useConnection(name, "vnc", {
    data: (data, done) => viewer.current?.write(data, done),
    opened: () => {
      viewer.current?.dispose();
      setQuestion([]);
      if (!place.current || !opener.current) return;
      viewer.current = opener.current(place.current, `Screen of ${name}`, {
        onInput: (data) => connection.send(data),
        onConnect: () => {
          setQuestion([]);
          viewer.current?.focus();
        },
        onQuestion: setQuestion,
        onRefusal: (reason) => {
          setQuestion([]);
          connection.close(`The VNC server has refused the log-in${reason && `: ${reason}`}.`);
        },
        onLeave: () => leave.current?.focus(),
      });
    },
  });
  useEffect(() => {
    let isGone = false;
    void import("../parts/screen.ts").then(({ openScreen }) => {
      if (isGone) return;
      opener.current = openScreen;
      connection.connect();
    });
    return () => {
      isGone = true;
      viewer.current?.dispose();
      viewer.current = null;
    };
  }, [name]);
  const isOpen = connection.state.state === "open";
  return (
    <section class="console" aria-label={`Screen of ${name}`}>
      <Bar connection={connection} instance={instance} leave={leave}>
        <button type="button" onClick={() => viewer.current?.controlAltDelete()}>
          Send Ctrl-Alt-Del
        </button>
      </Bar>
      {isOpen && question.length > 0 && (
        <Question names={question} onAnswer={(answers) => viewer.current?.log(answers)} />
      )}
      <div class="screen picture" ref={place} />
      <p class="hint">
        A click gives the keyboard to the guest; <kbd>Ctrl</kbd> <kbd>]</kbd> takes it back. Several people may look at
        a screen, and each can type.
      </p>
    </section>
  );
}

const WORDS: Readonly<Record<string, string>> = { username: "VNC user", password: "VNC password" };

function Question({
  names,
  onAnswer,
}: {
  names: readonly string[];
  onAnswer: (answers: Readonly<Record<string, string>>) => void;
}) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const entries = [...new FormData(event.currentTarget as HTMLFormElement)];
    onAnswer(Object.fromEntries(entries.map(([name, text]) => [name, String(text)])));
  };
  return (
    <form class="tools" onSubmit={submit}>
      {names.map((each, i) => (
        <label key={each}>
          {WORDS[each] ?? each}{" "}
          {each === "password" ? (
            <input name={each} type="password" autoComplete="off" autoFocus={i === 0} required />
          ) : (
            <input name={each} autoComplete="off" autoFocus={i === 0} required />
          )}
        </label>
      ))}
      <button type="submit" class="primary">
        Log in
      </button>
    </form>
  );
}
