// Waiting for a condition, never for a time.

/** Polls `probe` until it returns something true. The error carries the last value or error. */
export async function waitUntil(what, probe, { timeout = 30_000, every = 25 } = {}) {
  const end = Date.now() + timeout;
  let last;
  for (;;) {
    try {
      last = await probe();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() >= end) {
      const seen = last instanceof Error ? last.message : JSON.stringify(last);
      throw new Error(`waited ${timeout} ms until ${what}; last: ${String(seen).slice(0, 800)}`);
    }
    await new Promise((done) => setTimeout(done, every));
  }
}
