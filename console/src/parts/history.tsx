// The history of an object: read on demand, because the server reads its journal from the beginning for it.

import { useState } from "preact/hooks";
import { explanation, request } from "../api.ts";
import type { Event } from "../logic/changes.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { opcodeWords } from "../logic/summaries.ts";
import { Failure, None, Scrolling } from "./text.tsx";

interface Answer {
  readonly events: readonly Event[];
}

const MOST = 200;

export function HistoryPart({ kind, name }: { kind: string; name: string }) {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  async function read(): Promise<void> {
    setBusy(true);
    setFailure("");
    try {
      setAnswer(await request("GET", `/2/history?${new URLSearchParams({ kind, name, limit: String(MOST) })}`));
    } catch (error) {
      setFailure(explanation(error));
    } finally {
      setBusy(false);
    }
  }
  return (
    <section>
      <h2>History</h2>
      {failure && <Failure text={failure} />}
      {answer && <Rows answer={answer} />}
      <button type="button" disabled={isBusy} onClick={() => void read()}>
        {isBusy ? "Reading the journal…" : answer ? "Read it again" : "Read the history"}
      </button>
    </section>
  );
}

function Rows({ answer }: { answer: Answer }) {
  if (!answer.events.length) return <p class="empty">The journal has nothing about it.</p>;
  return (
    <>
      <Scrolling label="History">
        <table>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">What</th>
              <th scope="col">By</th>
              <th scope="col">Reason</th>
            </tr>
          </thead>
          <tbody>
            {answer.events.toReversed().map((event) => (
              <tr key={event.serial}>
                <td>{format.exact(event.time)}</td>
                <td>{event.cause.opcode ? opcodeWords(event.cause.opcode) : event.changes[0]?.what}</td>
                <td>
                  {event.cause.user?.replace(/^.*:/, "") || <None />}
                  {event.cause.job ? (
                    <>
                      {" "}
                      (<a href={href(["jobs", event.cause.job])}>job {event.cause.job}</a>)
                    </>
                  ) : null}
                </td>
                <td class="wraps">{event.cause.reason || <None />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolling>
      {answer.events.length >= MOST && <p class="none">These are the last {MOST}; there may be more.</p>}
    </>
  );
}
