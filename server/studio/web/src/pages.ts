// A list of threads, newest first, that is loaded page by page while the server's
// changes: threads come, go, and move to its beginning.

// Held is what is loaded of the threads that a query finds.
export type Held<T> = { query: string; items: T[]; loaded: number; more: boolean }; // loaded: where the next page begins

type Thread = { thread_id: string; updated_at: string };

// renewed is the list when its first page has been read, which has size threads
// unless it is the last. What was loaded of the rest stays.
export function renewed<T extends Thread>(held: Held<T> | undefined, query: string, first: T[], size: number): Held<T> {
  const end = first.at(-1);
  if (held?.query !== query || !end || first.length < size) return { query, items: first, loaded: first.length, more: first.length >= size };
  const known = new Set(first.map((t) => t.thread_id));
  const rest = held.items.filter((t) => !known.has(t.thread_id));
  // What is not among the first any more, but would be by its age, is gone, and
  // those after it have moved up.
  const older = rest.filter((t) => t.updated_at <= end.updated_at);
  return { query, items: [...first, ...older], loaded: Math.max(held.loaded - (rest.length - older.length), size), more: held.more || held.loaded < size };
}

// lengthened is the list with the page that was asked for from an offset. An answer
// that is not what comes next, since it came before or late, changes nothing.
export function lengthened<T extends Thread>(held: Held<T> | undefined, query: string, from: number, old: T[], size: number): Held<T> | undefined {
  if (held?.query !== query || held.loaded !== from) return held;
  const known = new Set(held.items.map((t) => t.thread_id));
  return { ...held, items: [...held.items, ...old.filter((t) => !known.has(t.thread_id))], loaded: from + old.length, more: old.length >= size };
}

// wants reports whether the next page is to be asked for: the list is looked at near its end.
export const wants = (held: Held<unknown> | undefined, near: boolean): boolean => !!held?.more && near;

// without is the list when a thread has been deleted.
export function without<T extends Thread>(held: Held<T> | undefined, id: string): Held<T> | undefined {
  const items = held?.items.filter((t) => t.thread_id !== id) ?? [];
  return held && { ...held, items, loaded: held.loaded - (held.items.length - items.length) };
}
