// Accessibility: axe on each page, light and dark, wide and narrow.
import assert from "node:assert/strict";
import axe from "axe-core";
import { hydrated, openAsOwner, openWindow } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { addRepository, startServer } from "../support/server.mjs";

/** What axe finds wrong, one line each. */
async function faults(page) {
  // Through the debugger, which the page's content policy does not bind.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }),
  );
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(" ")}`));
}

test("axe finds nothing on any page", async (t) => {
  const server = await startServer(t);
  await addRepository(t, server);
  const id = await server.add({
    repo: "sample", type: "bug", title: "Seen by axe", hold: true, criterion: "It is so", check: "true",
  });
  const login = await openWindow(t, { url: server.url });
  await login.goto("/login");
  assert.deepEqual(await faults(login), [], "/login");
  for (const size of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    const page = await openAsOwner(t, server, size);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const path of ["/", "/new", `/objective/${id}`, "/needs", "/terminals", "/repositories", "/accounts", "/health"]) {
        await page.goto(path);
        await hydrated(page);
        assert.deepEqual(await faults(page), [], `${path}, ${colorScheme}, ${size.width} px`);
      }
    }
  }
}, { timeout: 180_000 });
