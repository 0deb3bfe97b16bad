// Registering tests and the scope each of them gets: what it starts is ended in reverse order, always.
export const tests = [];

/** Registers a test. `fn(t)` gets its Scope. */
export function test(name, fn, { timeout = 120_000 } = {}) {
  tests.push({ name, fn, timeout });
}

export class Skip extends Error {}

export class Scope {
  constructor(name, browser, signal) {
    this.name = name;
    this.browser = browser;
    this.signal = signal;
    this.pages = [];
    this.problems = [];
    this.notes = [];
    this.ends = [];
  }

  defer(end) {
    this.ends.push(end);
  }

  /** Something a page reported that no page may report. */
  problem(text) {
    this.problems.push(text);
  }

  /** Shown when the test fails. */
  note(text) {
    this.notes.push(text);
  }

  skip(reason) {
    throw new Skip(reason);
  }

  async end() {
    for (const end of this.ends.reverse()) {
      try {
        await end();
      } catch (error) {
        this.problem(`while ending: ${error.message ?? error}`);
      }
    }
  }
}

/** Runs a scope's body against a deadline. */
export async function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
