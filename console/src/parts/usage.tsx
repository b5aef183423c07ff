// What a node or an instance used in the last day, as pictures.

import { useEffect, useRef, useState } from "preact/hooks";
import { explanation, request } from "../api.ts";
import * as format from "../logic/format.ts";
import { type Lines, lines, merged, type Used } from "../logic/rates.ts";
import type { Chart, Drawing, Scale } from "./chart.ts";
import { Failure, Loading } from "./text.tsx";

/** Nodes measure once a minute; there is no event for it. A tab that nobody sees does not ask. */
const PERIOD_MS = 60_000;

const rate = (value: number) => `${format.bytes(value)}/s`;

interface Picture extends Scale {
  readonly title: string;
  readonly lines: readonly (readonly [name: string, line: Exclude<keyof Lines, "times">])[];
}

const PICTURES: readonly Picture[] = [
  { title: "Processors", text: format.fraction, least: 1, isBinary: false, lines: [["in use", "processors"]] },
  { title: "Memory", text: format.bytes, least: 1 << 20, isBinary: true, lines: [["in use", "memory"]] },
  {
    title: "Disks",
    text: rate,
    least: 1 << 10,
    isBinary: true,
    lines: [
      ["read", "read"],
      ["written", "written"],
    ],
  },
  {
    title: "Network",
    text: rate,
    least: 1 << 10,
    isBinary: true,
    lines: [
      ["received", "received"],
      ["sent", "sent"],
    ],
  },
];

export function Usage({ kind, name }: { kind: "instance" | "node"; name: string }) {
  const [values, setValues] = useState<readonly Used[] | undefined>();
  const [failure, setFailure] = useState("");
  useEffect(() => {
    let known: readonly Used[] = [];
    let ended = false;
    const read = async () => {
      if (document.hidden) return;
      const since = known.at(-1)?.time ?? 0;
      try {
        const newer = await request<Used[]>("GET", `/2/${kind}s/${encodeURIComponent(name)}/usage?since=${since}`);
        if (ended) return;
        known = merged(known, newer);
        setValues(known);
        setFailure("");
      } catch (error) {
        if (!ended) setFailure(explanation(error));
      }
    };
    void read();
    const timer = setInterval(() => void read(), PERIOD_MS);
    document.addEventListener("visibilitychange", read);
    return () => {
      ended = true;
      clearInterval(timer);
      document.removeEventListener("visibilitychange", read);
    };
  }, [kind, name]);
  return (
    <section>
      <h2>Last day</h2>
      {failure && <Failure text={failure} />}
      {values === undefined && !failure && <Loading what="the last day" />}
      {values && values.length < 2 && <p class="empty">Nothing has been measured yet: values come once a minute.</p>}
      {values && values.length >= 2 && <Pictures drawn={lines(values)} />}
    </section>
  );
}

function Pictures({ drawn }: { drawn: Lines }) {
  return (
    <div class="pictures">
      {PICTURES.map((picture) => (
        <Plot key={picture.title} picture={picture} drawn={drawn} />
      ))}
    </div>
  );
}

function Plot({ picture, drawn }: { picture: Picture; drawn: Lines }) {
  const element = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart | undefined>(undefined);
  const drawing: Drawing = {
    times: drawn.times,
    lines: picture.lines.map(([name, line]) => ({ name, values: drawn[line] })),
  };
  const newest = useRef(drawing);
  newest.current = drawing;
  useEffect(() => {
    let ended = false;
    void import("./chart.ts").then(({ draw }) => {
      if (!ended && element.current) chart.current = draw(element.current, newest.current, picture);
    });
    return () => {
      ended = true;
      chart.current?.remove();
    };
  }, [picture]);
  useEffect(() => chart.current?.show(newest.current), [drawn]);
  return (
    <figure>
      <figcaption>{picture.title}</figcaption>
      <div ref={element} role="img" aria-label={summary(picture, drawn)} />
    </figure>
  );
}

/** The newest values in words, for those who do not see the lines. */
function summary(picture: Picture, drawn: Lines): string {
  const texts = picture.lines.map(([name, line]) => {
    const value = drawn[line].findLast((each) => each !== null);
    return `${value === undefined || value === null ? "unknown" : picture.text(value)} ${name}`;
  });
  return `${picture.title}: ${texts.join(", ")}`;
}
