// Accounts: their states, taking one out of the pool, and what the pages say while none is free.
import assert from "node:assert/strict";
import { AccountsPage } from "../pages/accounts.mjs";
import { BoardPage } from "../pages/board.mjs";
import { NewPage } from "../pages/new.mjs";
import { openAsOwner } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, startServer } from "../support/server.mjs";
import { waitUntil } from "../support/wait.mjs";

const ALL = [0, 1, 2, 3, 4].map((n) => `ccuser-${n}`);

test("an account is taken out of the pool and put back, by keyboard too", async (t) => {
  const server = await startServer(t);
  const page = await openAsOwner(t, server);
  const accounts = new AccountsPage(page);
  await accounts.open();
  assert.match(await accounts.mode.innerText(), /^Mode (homes|os-users)/);
  for (const name of ALL) await accounts.is(name, "available");
  assert.match(await accounts.card("ccuser-0").innerText(), /0 of 5/);

  await accounts.button("ccuser-1").focus();
  await page.keyboard.press("Enter");
  await accounts.is("ccuser-1", "disabled");
  await accounts.card("ccuser-1").getByText("Disabled by owner.").waitFor();
  assert.match((await server.cli(["accounts", "list"])).stdout, /ccuser-1\s+disabled/);
  await accounts.is("ccuser-2", "available");

  // The card was drawn anew; whoever works without a mouse goes on where they were.
  await waitUntil("the focus is on the button again", () =>
    page.evaluate(() => document.activeElement?.getAttribute("aria-label") === "Enable ccuser-1"));
  await page.keyboard.press("Enter");
  await accounts.is("ccuser-1", "available");
});

test("while no account is free the pages say until when, and stop saying so", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  for (const name of ALL.slice(1)) await server.cli(["accounts", "disable", name]);
  const page = await openAsOwner(t, server);
  const board = new BoardPage(page);
  await board.open();
  const banner = page.locator("[data-cooling]");
  assert.equal(await banner.count(), 0);

  const id = await server.add({
    repo: "sample", type: "task", title: "Meets a limit once", agent: "demo", script: "usage-limit",
    criterion: "hello.txt exists", check: "test -f hello.txt",
  });
  await banner.waitFor({ timeout: 60_000 });
  assert.match(await banner.innerText(), /No account is free until \d\d:\d\d\./);
  const note = board.card(id, "working").locator("[data-waits-account]");
  await note.waitFor();
  await waitUntil("the card says until when", async () => /No account until \d\d:\d\d/.test(await note.innerText()));

  const other = await openAsOwner(t, server);
  const accounts = new AccountsPage(other);
  await accounts.open();
  await accounts.is("ccuser-0", "cooling_down");
  assert.match(await accounts.card("ccuser-0").innerText(), /Until \d\d:\d\d \(in .+\)/);
  await accounts.button("ccuser-0").click();
  await accounts.is("ccuser-0", "available");

  await banner.waitFor({ state: "detached" });
  await board.shows(id, "done", 90_000);
}, { timeout: 240_000 });

test("with every account disabled the page says that somebody has to act", async (t) => {
  const server = await startServer(t);
  const page = await openAsOwner(t, server);
  await new BoardPage(page).open();
  const banner = page.locator("[data-no-slot]");
  assert.equal(await banner.count(), 0);
  for (const name of ALL) await server.cli(["accounts", "disable", name]);
  await banner.getByRole("link", { name: "Accounts" }).waitFor();
  await server.cli(["accounts", "enable", "ccuser-0"]);
  await banner.waitFor({ state: "detached" });
});

test("an agent that cannot run here says why and cannot be chosen", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const page = await openAsOwner(t, server);
  const form = new NewPage(page);
  await form.open();
  const claude = page.locator('input[name="agent"][value="claude"]');
  assert.ok(await claude.isDisabled(), "it can be chosen");
  assert.match(await page.locator("[data-lacks]").innerText(), /OPKIT_CLAUDE/);
  assert.ok(await page.locator('input[name="agent"][value="demo"]').isChecked());
});
