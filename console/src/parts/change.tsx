// A dialog that changes something and stays until the change is made: what is refused is read beside what was typed.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { explanation, request } from "../api.ts";
import { href } from "../logic/routes.ts";
import { outcome } from "../outcome.ts";
import { Dialog, closeDialog } from "./dialog.tsx";
import { notify, track } from "./notices.tsx";
import { Failure } from "./text.tsx";

type Method = "PUT" | "POST" | "DELETE";

/** Submit a change and wait for the end of its job; with `serial`, only if the object has not changed since. */
export type Send = (method: Method, path: string, body?: unknown, serial?: number) => Promise<unknown>;

interface ChangeDialogProps {
  title: string;
  action: string;
  keep?: string; // the text of the other button
  isDangerous?: boolean;
  isReady?: boolean; // whether what is typed can be sent
  isLong?: boolean; // whether the dialog closes when the job is submitted, because it may take minutes
  warning?: ComponentChildren; // about the object; not displayed while the own change is being made
  onDone?: () => void;
  run: (send: Send) => Promise<void>;
  children: ComponentChildren;
}

export function ChangeDialog({
  title,
  action,
  keep = "Cancel",
  isDangerous = false,
  isReady = true,
  isLong = false,
  warning,
  onDone,
  run,
  children,
}: ChangeDialogProps) {
  const [isBusy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState("");
  const pending = useRef(0);
  const isOpen = useRef(true);

  const send: Send = async (method, path, body, serial) => {
    const job = await request<number>(method, path, body, serial);
    if (isLong || !isOpen.current) track(job);
    if (isLong) return notify("good", <JobNotice title={title} job={job} />);
    pending.current = job;
    const result = await outcome(job);
    pending.current = 0;
    return result;
  };

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (isBusy || !isReady) return;
    setBusy(true);
    setRefusal("");
    try {
      await run(send);
      if (isOpen.current) close();
      onDone?.();
    } catch (error) {
      pending.current = 0;
      setRefusal(explanation(error));
      setBusy(false);
    }
  }

  /** Close; a job that has not ended continues, and its failure is reported wherever the person is then. */
  function close(): void {
    isOpen.current = false;
    if (pending.current) track(pending.current);
    closeDialog();
  }

  return (
    <Dialog title={title} onClose={close}>
      <form onSubmit={(event) => void submit(event)}>
        {children}
        {!isBusy && warning}
        {refusal && <Failure text={refusal} />}
        <div class="buttons">
          <button type="button" onClick={close}>
            {isBusy ? "Close" : keep}
          </button>
          <button type="submit" class={isDangerous ? "danger" : "primary"} disabled={isBusy || !isReady}>
            {isBusy ? "Working…" : action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function JobNotice({ title, job }: { title: string; job: number }) {
  return (
    <>
      {title}: <a href={href(["jobs", job])}>job {job}</a>
    </>
  );
}
