// Pages and dialogs that are loaded when somebody opens them, so that the first page stays small.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { notify } from "./notices.tsx";
import { Failure, Loading } from "./text.tsx";

const OUTDATED = "This part of the console cannot be loaded. If Gantry was updated, load the page again.";

/** Return a component that loads another one, and then is it. */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  return function Lazy(props: Props) {
    const [Part, setPart] = useState<ComponentType<Props> | null>(() => loaded);
    const [hasFailed, setFailed] = useState(false);
    useEffect(() => {
      if (loaded) return;
      load().then(
        (part) => {
          loaded = part;
          setPart(() => part);
        },
        () => setFailed(true),
      );
    }, []);
    if (hasFailed) return <Failure text={OUTDATED} />;
    return Part ? <Part {...props} /> : <Loading what="the page" />;
  };
}

/** Load a module and use it; say so if it cannot be loaded. */
export function withLoaded<Module>(load: () => Promise<Module>, use: (loaded: Module) => void): void {
  load().then(use, () => notify("bad", OUTDATED));
}
