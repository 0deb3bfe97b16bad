// The board by mouse and keyboard, in one window and in two.
import assert from "node:assert/strict";
import { BoardPage } from "../pages/board.mjs";
import { openAsOwner } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, startServer } from "../support/server.mjs";
import { waitUntil } from "../support/wait.mjs";

/** A board with one held objective in the queue: nothing moves it but the test. */
async function held(t, fields = {}) {
  const server = await startServer(t);
  await addRepository(t, server);
  const id = await server.add({
    repo: "sample", type: "bug", title: "Held card", agent: "demo",
    criterion: "hello.txt exists", check: "test -f hello.txt", hold: true, ...fields,
  });
  return { server, id };
}

test("two windows agree after a drag", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const id = await server.add({
    repo: "sample", type: "project", title: "Waits for a signature", agent: "demo",
    criterion: "hello.txt exists", check: "test -f hello.txt",
  });
  await server.until(id, "human_review", 120_000);

  const [here, there] = [await openAsOwner(t, server), await openAsOwner(t, server)].map((page) => new BoardPage(page));
  await Promise.all([here.open(), there.open()]);
  const seen = Promise.all([here.seenIn(id, "done"), there.seenIn(id, "done")]);
  await here.drag(id, "done");
  await seen;
  await server.until(id, "done");
}, { timeout: 240_000 });

test("a card moves by keyboard alone", async (t) => {
  const { server, id } = await held(t);
  const board = new BoardPage(await openAsOwner(t, server));
  await board.open();
  await board.moveByKeyboard(id, "cancelled");
  await server.until(id, "cancelled");
});

test("an illegal move says why and the card goes back", async (t) => {
  const { server, id } = await held(t);
  const board = new BoardPage(await openAsOwner(t, server));
  await board.open();
  await board.drag(id, "done");
  await board.toast.first().waitFor();
  assert.match(await board.toast.first().innerText(), /\w+ \w+ \w+/, "the toast holds no sentence");
  await board.shows(id, "queue");
  assert.equal((await server.objective(id)).status, "queue");
});

test("the board never ships a brief", async (t) => {
  const canary = "canary-7f3a91";
  const { server, id } = await held(t, { brief: `A brief with ${canary} in it.` });
  const page = await openAsOwner(t, server);
  const frames = [];
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => frames.push(payload)));
  const html = await (await page.goto("/")).text();
  assert.ok(html.includes(`data-card="${id}"`), "the card is not in the page");
  assert.ok(!html.includes(canary), "the page holds the brief");
  const board = new BoardPage(page);
  await board.live();
  const before = frames.length;
  await server.cli(["objective", "cancel", String(id)]);
  await waitUntil("the feed tells of the move", () => frames.length > before);
  assert.ok(!frames.some((frame) => frame.includes(canary)), "the feed holds the brief");
});
