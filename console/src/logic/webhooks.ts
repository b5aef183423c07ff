// Webhooks as the server lists them: the words for their state, and what a form sends.

import * as format from "./format.ts";
import type { Status } from "../model.ts";

export interface Webhook {
  readonly name: string;
  readonly origin: string;
  readonly events: readonly string[];
  readonly enabled: boolean;
  readonly status: string;
  readonly lag: number;
  readonly pruned: number;
  readonly waiting_since: number | null;
  readonly failure: string | null;
  readonly position: number;
  readonly uuid: string;
  readonly ctime: number;
}

/** Why a receiver fails that wants no more requests: the server then disables the webhook. */
const GONE = "status 410";

const STATUSES: Readonly<Record<string, Status>> = {
  ok: { tone: "good", word: "delivers", about: "Its receiver accepts events" },
  failing: {
    tone: "bad",
    word: "fails",
    about: "Its receiver does not accept an event, which is sent again and again",
  },
  behind: { tone: "warn", word: "behind", about: "Its receiver has many events to get" },
  disabled: { tone: "idle", word: "disabled", about: "Nothing is sent; the position is kept" },
};
const ENDED: Status = { tone: "bad", word: "gone", about: "Its receiver answered 410, Gone: nothing is sent" };

export function status(hook: Webhook): Status {
  if (isGone(hook)) return ENDED;
  return STATUSES[hook.status] ?? { tone: "warn", word: hook.status, about: "" };
}

function isGone(hook: Webhook): boolean {
  return !hook.enabled && hook.waiting_since !== null && hook.failure === GONE;
}

/** What is wrong with a webhook and what to do about it, in sentences; empty if nothing is. */
export function problems(hook: Webhook): string[] {
  const sentences = [];
  if (isGone(hook)) {
    sentences.push(
      "Its receiver answered 410 (Gone), so nothing is sent. When the receiver is back, enable the webhook.",
    );
  } else if (hook.status === "failing") {
    sentences.push(
      `Its receiver has not accepted an event: ${hook.failure ?? "the reason is not known"}. The event is sent again ` +
        "until it is accepted, and the events after it wait.",
    );
  } else if (hook.status === "behind") {
    sentences.push("If the number of changes does not fall, check that gantry-rapi runs on the master.");
  }
  if (hook.pruned > 0) {
    sentences.push(
      `The journal does not keep ${format.plural(hook.pruned, "change")} of these any more: the receiver gets ` +
        "gantry.history.pruned in their place, and should read the present state.",
    );
  }
  return sentences;
}

/** Kinds of objects and their changes as somebody types them: with commas, spaces or both. */
export function parseEvents(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

export type Trust = "kept" | "system" | "own";

export interface Draft {
  readonly url: string;
  readonly events: string;
  readonly trust: Trust;
  readonly authorities: string;
  readonly isWithoutTls: boolean;
}

/** The draft of a form that changes nothing yet. */
export function draftOf(hook: Webhook): Draft {
  return { url: "", events: hook.events.join(", "), trust: "kept", authorities: "", isWithoutTls: false };
}

export const EMPTY: Draft = { url: "", events: "", trust: "system", authorities: "", isWithoutTls: false };

/** The body for a new webhook. */
export function addition(name: string, draft: Draft): Record<string, unknown> {
  return {
    name: name.trim(),
    url: draft.url.trim(),
    events: parseEvents(draft.events),
    ...(draft.trust === "own" && { authorities: draft.authorities }),
    ...(draft.isWithoutTls && { without_tls: true }),
  };
}

/** The body with what a draft changes of a webhook; empty if that is nothing. */
export function modification(hook: Webhook, draft: Draft): Record<string, unknown> {
  const events = parseEvents(draft.events);
  const url = draft.url.trim();
  return {
    ...(url && { url, without_tls: draft.isWithoutTls }),
    ...(events.join() !== hook.events.join() && { events }),
    ...(draft.trust === "system" && { authorities: "" }),
    ...(draft.trust === "own" && { authorities: draft.authorities }),
  };
}

/** Whether authorities that have to be typed are missing. */
export function lacksAuthorities(draft: Draft): boolean {
  return draft.trust === "own" && !draft.authorities.includes("BEGIN CERTIFICATE");
}
