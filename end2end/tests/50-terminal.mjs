// The terminal: live lines, and a server that dies under it.
import assert from "node:assert/strict";
import { BoardPage } from "../pages/board.mjs";
import { TerminalPage } from "../pages/terminal.mjs";
import { openAsOwner, openWindow } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, startServer } from "../support/server.mjs";
import { waitUntil } from "../support/wait.mjs";

async function atWork(t, script) {
  const server = await startServer(t);
  await addRepository(t, server);
  const id = await server.add({
    repo: "sample", type: "task", title: "At work", agent: "demo", script,
    criterion: "hello.txt exists", check: "test -f hello.txt",
  });
  await server.until(id, "working");
  const token = (await server.cli(["tokens", "create", "--actor", "test", "--scope", "operate"])).stdout.trim();
  const session = await waitUntil("a session lives", async () => {
    const response = await fetch(`${server.url}/api/v1/sessions?state=live`, { headers: { authorization: `Bearer ${token}` } });
    return (await response.json()).items.find(({ objective }) => objective === id)?.id;
  });
  return { server, id, session };
}

/** Numbers without a hole. */
function assertWhole(lines) {
  const numbers = lines.map(({ number }) => number).sort((a, b) => a - b);
  for (let at = 1; at < numbers.length; at += 1) {
    assert.equal(numbers[at], numbers[at - 1] + 1, `a line is missing or doubled after ${numbers[at - 1]}`);
  }
}

test("a terminal shows the session's lines", async (t) => {
  const { server, session } = await atWork(t, "hangs");
  const page = await openAsOwner(t, server);
  const terminal = new TerminalPage(page);
  await terminal.open(session);
  await terminal.shows("I go on thinking");
  assertWhole(await terminal.lines());
});

test("after the server was killed the terminal goes on without a gap and the board is live again", async (t) => {
  const { server, id, session } = await atWork(t, "hangs");
  // A dead server is what this test is about.
  const allow = [/ERR_CONNECTION_REFUSED|WebSocket|Failed to load resource|ERR_CONNECTION_RESET/];
  const page = await openAsOwner(t, server, { allow });
  const terminal = new TerminalPage(page);
  await terminal.open(session);
  await terminal.shows("I go on thinking");
  const before = await terminal.lines();

  const other = await openWindow(t, { url: server.url, allow });
  await other.context().addCookies(await page.context().cookies());
  const board = new BoardPage(other);
  await board.open();

  await server.kill();
  await other.locator('[data-live="connecting"], [data-live="stale"]').first().waitFor({ state: "attached" });
  await server.start();

  await board.live();
  await board.shows(id, "working");
  await waitUntil("the terminal is live again", async () => (await page.locator('[data-live="live"]').count()) > 0);
  const after = await terminal.lines();
  assertWhole(after);
  for (const { number, text } of before) {
    const same = after.find((line) => line.number === number);
    if (same) assert.equal(same.text, text, `line ${number} changed`);
  }
  assert.ok(after.at(-1).number >= before.at(-1).number, "lines are gone");
}, { timeout: 120_000 });

test("a page stays responsive under a flood and ends on what comes after it", async (t) => {
  const { server, id, session } = await atWork(t, "floods");
  const page = await openAsOwner(t, server);
  const terminal = new TerminalPage(page);
  await terminal.open(session);
  await terminal.shows(/of a flood/);
  for (let n = 0; n < 50; n += 1) {
    const start = Date.now();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0))));
    assert.ok(Date.now() - start < 5000, "the page did not answer for five seconds");
  }
  await server.until(id, "done", 120_000);
  await waitUntil("the last line is not the flood's", async () => {
    const lines = (await terminal.lines()).filter(({ text }) => text.trim() !== "");
    return lines.length > 0 && !/of a flood/.test(lines.at(-1).text);
  });
  assertWhole(await terminal.lines());
}, { timeout: 240_000 });
