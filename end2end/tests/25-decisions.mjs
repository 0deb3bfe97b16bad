// What a person can get wrong, and how the page helps out of it.
import assert from "node:assert/strict";
import { BoardPage } from "../pages/board.mjs";
import { TerminalPage } from "../pages/terminal.mjs";
import { hydrated, openAsOwner } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, startServer } from "../support/server.mjs";
import { waitUntil } from "../support/wait.mjs";

async function held(t, fields = {}) {
  const server = await startServer(t);
  await addRepository(t, server);
  const add = (more = {}) =>
    server.add({
      repo: "sample", type: "bug", title: "Held card", agent: "demo",
      criterion: "hello.txt exists", check: "test -f hello.txt", hold: true, ...more,
    });
  return { server, add, id: await add(fields) };
}

test("an edit that comes second keeps its text, says what changed and can be saved over it", async (t) => {
  const { server, id } = await held(t);
  const [first, second] = [await openAsOwner(t, server), await openAsOwner(t, server)];
  for (const page of [first, second]) {
    await page.goto(`/objective/${id}/edit`);
    await hydrated(page);
  }
  await first.getByLabel("Title", { exact: true }).fill("The faster title");
  await first.locator("[data-save]").click();
  await first.waitForURL(`${server.url}/objective/${id}`);

  await second.getByLabel("Brief", { exact: true }).fill("A brief that came second.");
  await second.locator("[data-save]").click();
  await second.locator("[data-conflict]").getByText("The faster title").waitFor();
  assert.equal(await second.getByLabel("Brief", { exact: true }).inputValue(), "A brief that came second.");
  await second.getByRole("button", { name: "Save over it" }).click();
  await second.waitForURL(`${server.url}/objective/${id}`);
  await second.getByText("A brief that came second.").waitFor();
  assert.equal((await server.objective(id)).title, "The faster title", "the field nobody touched here is theirs");
});

test("Escape puts a dragged card back and nothing else happens", async (t) => {
  const { server, id } = await held(t);
  const page = await openAsOwner(t, server);
  const board = new BoardPage(page);
  await board.open();
  const { x, y, width, height } = await board.card(id).boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2 + 20, y + height / 2 + 10, { steps: 4 });
  await page.locator(".is-drag").waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".is-drag").waitFor({ state: "detached" });
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.up();
  await page.waitForTimeout(300);
  assert.equal(new URL(page.url()).pathname, "/");
  // A plain press on the card's ground still opens it.
  await page.mouse.click(x + width - 12, y + height - 6);
  await page.waitForURL(`${server.url}/objective/${id}`);
});

test("M and Enter never cancel, and what was cancelled can be undone", async (t) => {
  const { server, id } = await held(t);
  const page = await openAsOwner(t, server);
  const board = new BoardPage(page);
  await board.open();
  await board.card(id).locator("[data-open]").focus();
  await page.keyboard.press("m");
  await page.locator('[role="menu"]:focus').waitFor();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  assert.equal((await server.objective(id)).status, "queue");
  await board.moveByKeyboard(id, "cancelled");
  await page.locator("[data-undo]").click();
  await server.until(id, "queue");
});

test("a card that waits for another one says so before it is dropped", async (t) => {
  const { server, add, id } = await held(t);
  const second = await add({ "blocked-by": String(id), title: "The second one" });
  const page = await openAsOwner(t, server);
  const board = new BoardPage(page);
  const sentence = `It waits for #${id}, which is not done.`;
  await board.open();
  await board.card(second).getByText(sentence).waitFor();
  await page.goto(`/objective/${second}`);
  await hydrated(page);
  assert.match(await page.locator("[data-act] [data-why]").innerText(), new RegExp(sentence.replaceAll(".", "\\.")));
});

test("what is not there has a title, a sentence and status 404", async (t) => {
  const server = await startServer(t);
  const page = await openAsOwner(t, server, { allow: [/404/] });
  for (const [path, text] of [
    ["/objective/abc", "There is no objective “abc”."],
    ["/objective/99", "99"],
    ["/session/abc", "There is no session “abc”."],
    ["/objective/abc/edit", "There is no objective “abc”."],
  ]) {
    const response = await page.goto(path);
    await hydrated(page);
    assert.equal(response.status(), 404, path);
    assert.ok((await page.title()).length > 8, `${path}: title ${await page.title()}`);
    assert.ok((await page.locator("main").innerText()).includes(text), path);
  }
});

test("a terminal's search says when nothing is found, and Home and End go to the ends", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const id = await server.add({
    repo: "sample", type: "task", title: "Many lines", agent: "demo", script: "floods",
    criterion: "hello.txt exists", check: "test -f hello.txt",
  });
  const page = await openAsOwner(t, server);
  const session = await waitUntil("a session was there", async () => {
    await page.goto(`/objective/${id}?tab=sessions`);
    return page.locator("[data-session]").first().getAttribute("data-session", { timeout: 1000 }).catch(() => null);
  }, { timeout: 30_000, every: 500 });
  const terminal = new TerminalPage(page);
  await terminal.open(session);
  await page.locator("[data-ended]:visible").waitFor({ timeout: 60_000 });
  await page.locator("[data-find]").fill("there is no such text");
  await page.getByText("No match in the loaded lines").waitFor();
  await page.locator("[data-term]").focus();
  await page.keyboard.press("Home");
  await page.locator('[data-line="0"]').waitFor();
  await page.keyboard.press("End");
  await page.locator("[data-ended]").waitFor();
  await waitUntil("it stands at the end", () =>
    page.locator("[data-term]").evaluate((frame) => frame.scrollHeight - frame.scrollTop - frame.clientHeight < 40));
}, { timeout: 120_000 });

test("a question mark shows the keys", async (t) => {
  const server = await startServer(t);
  const page = await openAsOwner(t, server);
  await new BoardPage(page).open();
  await page.keyboard.press("?");
  await page.locator("[data-keys]:visible").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("[data-keys]").waitFor({ state: "hidden" });
});
