// Choices that the browser keeps. A browser that keeps nothing has the defaults at each visit.

const PREFIX = "gantry-console-";

export function kept(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function keep(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage is off or full: the choice is for this page only.
  }
}
