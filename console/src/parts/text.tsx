// Small pieces of text: statuses, times, amounts, links to objects.

import type { ComponentChildren } from "preact";
import * as format from "../logic/format.ts";
import { objectHref } from "../logic/routes.ts";
import { parseSummary } from "../logic/summaries.ts";
import type { Status, Tone } from "../model.ts";
import { now } from "../store.ts";

export function Badge({ status, title }: { status: Status; title?: string }) {
  return (
    <span class={`badge ${status.tone}`} title={title ?? status.about}>
      {status.word}
    </span>
  );
}

/** How long ago something was; the exact time is in the title. */
export function Ago({ time }: { time: unknown }) {
  const at = format.seconds(time);
  if (at === null) return <span class="none">-</span>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={format.exact(at)}>
      {format.ago(at, now.value)}
    </time>
  );
}

/** How long something took, or takes until now. */
export function Took({ start, end }: { start: unknown; end: unknown }) {
  const from = format.seconds(start);
  if (from === null) return <span class="none">-</span>;
  return <>{format.duration((format.seconds(end) ?? Math.max(now.value, from)) - from)}</>;
}

/** The name of an object as a link to its page. */
export function ObjectLink({ kind, name }: { kind: string; name: string }) {
  const target = objectHref(kind, name);
  return target ? <a href={target}>{name}</a> : <>{name}</>;
}

/** What a job does, with a link to the object that it is about; a dry run says that it only plans. */
export function JobWords({ summary, isDryRun = false }: { summary: string; isDryRun?: boolean }) {
  const { words, kind, name, more } = parseSummary(summary);
  return (
    <>
      {isDryRun && "Plan: "}
      {words} {name && (kind ? <ObjectLink kind={kind} name={name} /> : name)}
      {more > 0 && ` and ${format.plural(more, "more step")}`}
    </>
  );
}

/** A share of an amount as a bar with its words. */
export function Meter({ part, total, label, tone }: { part: number; total: number; label: string; tone?: Tone }) {
  const share = total > 0 ? Math.min(1, part / total) : 0;
  return (
    <span class={`meter ${tone ?? (share >= 0.95 ? "bad" : share >= 0.8 ? "warn" : "good")}`}>
      <span class="track" aria-hidden="true">
        <span class="fill" style={{ width: `${share * 100}%` }} />
      </span>
      <span class="words">{label}</span>
    </span>
  );
}

export function None({ children = "-" }: { children?: ComponentChildren }) {
  return <span class="none">{children}</span>;
}

/** Links, or any pieces, with commas between them. */
export function Commas({ children }: { children: readonly ComponentChildren[] }) {
  return <>{children.map((child, i) => [i > 0 && ", ", child])}</>;
}

/** Names and values: a definition list. */
export function Facts({ isWide = false, children }: { isWide?: boolean; children: ComponentChildren }) {
  return <dl class={isWide ? "facts wide" : "facts"}>{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A table that may be wider than the window: it scrolls, by keys too. */
export function Scrolling({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div class="table scrolls" role="region" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}

export function Failure({ text }: { text: string }) {
  return (
    <p class="failure" role="alert">
      {text}
    </p>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      Reading {what}…
    </p>
  );
}
