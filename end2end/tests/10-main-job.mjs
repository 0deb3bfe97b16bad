// The main job, from the set-up link to a reviewed branch, reading nothing but the page.
import { BoardPage } from "../pages/board.mjs";
import { LoginPage } from "../pages/login.mjs";
import { NewPage } from "../pages/new.mjs";
import { ObjectivePage } from "../pages/objective.mjs";
import { TerminalPage } from "../pages/terminal.mjs";
import { openAsOwner, openWindow } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, startServer } from "../support/server.mjs";

test("a new owner takes an objective from the sample repository to done", async (t) => {
  const server = await startServer(t, { owner: false });
  const page = await openWindow(t, { url: server.url });
  await new LoginPage(page).setUp(await server.setupLink());

  const board = new BoardPage(page);
  await board.open();
  await board.addSampleRepository();
  const form = new NewPage(page);
  await form.open();
  const id = await form.create({
    title: "Say hello",
    criterion: "hello.txt exists",
    check: "test -f hello.txt",
  });

  await board.open();
  await board.shows(id, "done", 120_000);

  const objective = new ObjectivePage(page, id);
  await objective.open();
  await objective.showsInDiff("hello.txt");

  await objective.open();
  await objective.showsContext("Acceptance criteria");
  await objective.open();
  await objective.openTerminal();
  const terminal = new TerminalPage(page);
  await terminal.ready();
  await terminal.shows(/\S/);
}, { timeout: 240_000 });

test("a person approves a project in the browser", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const id = await server.add({
    repo: "sample", type: "project", title: "Signed by a person", agent: "demo",
    criterion: "hello.txt exists", check: "test -f hello.txt",
  });
  await server.until(id, "human_review", 120_000);

  const page = await openAsOwner(t, server);
  const objective = new ObjectivePage(page, id);
  await objective.open();
  await objective.approve();
  await server.until(id, "done");
}, { timeout: 240_000 });
