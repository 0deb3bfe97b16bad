// What every page owes: readable without wasm, calm at hydration, usable on a phone, installable.
import assert from "node:assert/strict";
import { BoardPage } from "../pages/board.mjs";
import { HealthPage } from "../pages/health.mjs";
import { LoginPage } from "../pages/login.mjs";
import { NeedsPage } from "../pages/needs.mjs";
import { hydrated, layoutShift, openAsOwner, openWindow } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, startServer } from "../support/server.mjs";

async function withCards(t, count = 5) {
  const server = await startServer(t);
  await addRepository(t, server);
  const ids = [];
  for (let n = 1; n <= count; n += 1) {
    ids.push(await server.add({ repo: "sample", type: "task", title: `Card number ${n} with a title of some length`, hold: true }));
  }
  return { server, ids };
}

test("a browser without scripts logs in and reads the board", async (t) => {
  const { server, ids } = await withCards(t);
  const page = await openWindow(t, { url: server.url, script: false });
  await new LoginPage(page).logIn();
  const board = new BoardPage(page);
  for (const id of ids) await board.shows(id, "queue");
});

test("nothing jumps when the page comes alive", async (t) => {
  const { server } = await withCards(t, 12);
  const page = await openAsOwner(t, server);
  const board = new BoardPage(page);
  await board.open();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const shift = await layoutShift(page);
  assert.ok(shift < 0.02, `layout shift ${shift}`);
});

test("a phone of 390 px needs no sideways scrolling and has large targets", async (t) => {
  const { server, ids } = await withCards(t);
  const page = await openAsOwner(t, server, { width: 390, height: 844, touch: true });
  for (const path of ["/", "/needs", "/health", "/accounts", "/repositories", "/new", `/objective/${ids[0]}`]) {
    await page.goto(path);
    await hydrated(page);
    const { width, inner, hidden, small } = await page.evaluate(() => ({
      hidden: document.querySelector("main").scrollWidth - document.querySelector("main").clientWidth,
      width: document.documentElement.scrollWidth,
      inner: document.documentElement.clientWidth,
      small: [...document.querySelectorAll("main button, main select, main [role=menuitem], nav a")]
        .map((element) => ({ box: element.getBoundingClientRect(), html: element.outerHTML.slice(0, 120) }))
        .filter(({ box }) => box.width > 0 && box.right > 0 && box.left < innerWidth)
        .filter(({ box }) => box.height < 43.5 || box.width < 43.5)
        .map(({ box, html }) => `${box.width.toFixed(0)}x${box.height.toFixed(0)} ${html}`),
    }));
    assert.ok(width <= inner, `${path}: the document is ${width} px wide in ${inner}`);
    assert.ok(hidden <= 0, `${path}: ${hidden} px of the page hide beside it`);
    assert.deepEqual(small, [], `${path}: targets under 44 px`);
  }
});

test("a phone opens the board where work is, and stays on the lane that somebody chose", async (t) => {
  const { server, ids } = await withCards(t, 2);
  const phone = { width: 390, height: 844, touch: true };
  // Before any script: nothing moves under a finger when the page comes alive.
  const early = await openWindow(t, { url: server.url, script: false, ...phone });
  await new LoginPage(early).logIn();
  await new BoardPage(early).isOn("queue");
  const page = await openAsOwner(t, server, phone);
  const board = new BoardPage(page);
  await board.open();
  await board.isOn("queue");
  await page.locator(".lane-tab").filter({ hasText: "Done" }).tap();
  await board.isOn("done");
  await page.locator('.filter-text').fill("Card");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=Card/);
  await board.isOn("done");
  for (const id of ids) await server.cli(["objective", "cancel", String(id)]);
  await board.open();
  await board.isOn("planning");
}, { timeout: 240_000 });

test("a tap moves a card on a phone", async (t) => {
  const { server, ids } = await withCards(t, 1);
  const board = new BoardPage(await openAsOwner(t, server, { width: 390, height: 844, touch: true }));
  await board.open();
  await board.moveByMenu(ids[0], "cancelled");
  await server.until(ids[0], "cancelled");
});

test("Chromium would install it", async (t) => {
  const { server } = await withCards(t, 0);
  const page = await openAsOwner(t, server);
  const session = await page.context().newCDPSession(page);
  const { installabilityErrors } = await session.send("Page.getInstallabilityErrors");
  // A test's context has no profile; that alone is no fault of the page.
  const errors = installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== "in-incognito");
  assert.deepEqual(errors, []);
});

test("needs you and health open and say something", async (t) => {
  const { server } = await withCards(t, 0);
  const page = await openAsOwner(t, server);
  for (const open of [new NeedsPage(page), new HealthPage(page)]) {
    await open.open();
    await hydrated(page);
    assert.ok((await page.locator("main").innerText()).trim().length > 10, "the page is empty");
    assert.equal(await page.locator("h1").count(), 1);
  }
});
