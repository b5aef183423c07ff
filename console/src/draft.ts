// The form of a new instance while it is being filled in: it stays when a person looks at another page and comes back.

import { signal } from "@preact/signals";
import type { CreationForm } from "./logic/creation.ts";

export const draft = signal<CreationForm | null>(null);
