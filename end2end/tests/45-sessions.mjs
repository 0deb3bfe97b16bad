// What the pages say about a session beside its output: denials, planted settings, the proof, the time it takes.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { BoardPage } from "../pages/board.mjs";
import { ObjectivePage } from "../pages/objective.mjs";
import { RepositoriesPage } from "../pages/repositories.mjs";
import { hydrated, openAsOwner } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, run, sampleRepository, startServer } from "../support/server.mjs";
import { waitUntil } from "../support/wait.mjs";

const CRITERION = { criterion: "hello.txt exists", check: "test -f hello.txt" };

test("a denial shows on the card while the session runs, and stays in the timeline", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const page = await openAsOwner(t, server);
  const board = new BoardPage(page);
  await board.open();
  const id = await server.add({
    repo: "sample", type: "task", title: "Tries what it may not", agent: "demo", script: "writes-outside", ...CRITERION,
  });
  const denial = board.card(id, "working").locator("[data-denial]");
  await denial.waitFor({ timeout: 60_000 });
  assert.match(await denial.innerText(), /^Denied write to '\/.+' outside worktree$/);
  await board.shows(id, "done", 90_000);
  assert.equal(await board.card(id).locator("[data-denial]").count(), 0, "nothing runs, so nothing is denied");

  await page.goto(`/objective/${id}?tab=timeline`);
  const line = page.locator("[data-timeline] li").filter({ hasText: "outside worktree" }).first();
  await line.waitFor();
  assert.match(await line.innerText(), /Denied\. Write to '\/.+' outside worktree\. Write below the worktree/);
  await page.goto(`/objective/${id}?tab=sessions`);
  await page.locator("[data-session]").getByText(/\d denied calls?/).waitFor();
}, { timeout: 180_000 });

test("the sessions list names settings that the repository brought and that were not loaded", async (t) => {
  const server = await startServer(t);
  const folder = await sampleRepository(t);
  fs.mkdirSync(path.join(folder, ".claude"));
  fs.writeFileSync(path.join(folder, ".claude/settings.json"), "{}\n");
  const git = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"];
  await run("git", [...git, "add", "."], { cwd: folder });
  await run("git", [...git, "commit", "--quiet", "-m", "Settings"], { cwd: folder });
  await server.cli(["repos", "add", folder, "--name", "sample", "--base", "main"]);
  const id = await server.add({ repo: "sample", type: "task", title: "Planted", agent: "demo", ...CRITERION });
  await server.until(id, "done", 90_000);
  // On a phone nothing of it may hide behind an edge.
  for (const size of [{}, { width: 390, height: 844, touch: true }]) {
    const page = await openAsOwner(t, server, size);
    const objective = new ObjectivePage(page, id);
    await objective.open("sessions");
    const note = page.locator("[data-session]").getByText("Settings in the worktree, not loaded: .claude/settings.json");
    await note.first().waitFor();
    const box = await note.first().boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= page.viewportSize().width, `it stands at ${JSON.stringify(box)}`);
    const hidden = await page.locator("main").evaluate((main) => main.scrollWidth - main.clientWidth);
    assert.equal(hidden, 0, "the page can be pushed sideways");
  }
}, { timeout: 180_000 });

test("the time of a step ticks while somebody watches, and the terminal shows the wall's proof", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const id = await server.add({ repo: "sample", type: "task", title: "Takes long", agent: "demo", script: "hangs", ...CRITERION });
  const session = await waitUntil("a session runs", async () => (await server.objective(id)).session, { timeout: 30_000 });
  const page = await openAsOwner(t, server);
  await new ObjectivePage(page, id).open();
  const time = page.locator('[data-step="working"] time');
  const first = await time.innerText();
  assert.match(first, /^\d+ s$/);
  await waitUntil("it ticks", async () => Number.parseInt(await time.innerText(), 10) >= Number.parseInt(first, 10) + 2);

  await page.goto(`/session/${session}`);
  await hydrated(page);
  const button = page.locator("[data-proof]");
  await button.waitFor();
  const proof = page.locator("#proof");
  assert.ok(await proof.isHidden());
  await button.focus();
  await page.keyboard.press("Enter");
  await proof.getByText("Confined").waitFor();
  const answers = await proof.locator("dd").allInnerTexts();
  assert.ok(answers.length >= 3 && answers.every((answer) => /^E[A-Z]+$/.test(answer)), `the proof says ${answers}`);
  await page.keyboard.press("Escape");
  await proof.waitFor({ state: "hidden" });
}, { timeout: 120_000 });

test("what a session left uncommitted is listed and comes back", async (t) => {
  const server = await startServer(t);
  const folder = await sampleRepository(t);
  await server.cli(["repos", "add", folder, "--name", "sample", "--base", "main", "--setup", "echo precious > untracked.txt"]);
  const id = await server.add({
    repo: "sample", type: "bug", title: "Leaves work", agent: "demo", script: "asks-nothing",
    "max-review-rounds": 1, ...CRITERION,
  });
  await server.until(id, "human_review", 120_000);
  const page = await openAsOwner(t, server);
  await new ObjectivePage(page, id).open("kept");
  const kept = page.locator("[data-kept]").first();
  await kept.getByText("untracked.txt").waitFor();
  await kept.locator("[data-restore]").click();
  await page.getByRole("alertdialog").getByRole("button", { name: /^Bring rescue\/\d+ back$/ }).click();
  await kept.getByText("Brought back").waitFor();
  assert.equal(await kept.locator("[data-restore]").count(), 0, "once is enough");
  await page.goto(`/objective/${id}?tab=timeline`);
  await page.locator("[data-timeline] li").filter({ hasText: /rescue\/\d+/ }).first().waitFor();
}, { timeout: 180_000 });

test("set-up, verify and the number of checkouts made ahead are changed in the browser", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const page = await openAsOwner(t, server);
  const repositories = new RepositoriesPage(page);
  await repositories.open();
  await repositories.change("sample", { "Set-up command": "true", "Verify command": "test -f README.md", "Checkouts made ahead": "1" });
  const row = repositories.row("sample");
  await row.getByText("test -f README.md").waitFor();
  await waitUntil("one checkout is made ahead", async () => {
    await repositories.open();
    return (await row.locator("[data-ready]").innerText()).trim() === "1 of 1";
  }, { timeout: 30_000, every: 500 });
}, { timeout: 120_000 });
