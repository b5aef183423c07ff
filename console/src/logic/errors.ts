// The results of opcodes that failed: the error's class, then its arguments, of which the first is the text for people.

/** Return the text of a failed opcode's result. */
export function errorText(result: unknown): string {
  if (typeof result === "string") return result;
  if (!Array.isArray(result)) return "";
  const [first, second] = result as unknown[];
  if (Array.isArray(second)) {
    const text: unknown = second.length ? second[0] : first;
    if (typeof text === "string") return text;
  }
  return JSON.stringify(result);
}
