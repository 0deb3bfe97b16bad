// Runs the browser tests one after the other: `node run.mjs [part of a name]…`. The last line is the count.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch } from "./support/browser.mjs";
import { Scope, Skip, tests, within } from "./support/harness.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const out = path.join(here, "out");
const wanted = process.argv.slice(2);

const folder = path.join(here, "tests");
for (const file of fs.readdirSync(folder).filter((name) => name.endsWith(".mjs")).sort()) {
  await import(pathToFileURL(path.join(folder, file)));
}
const chosen = tests.filter(({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)));

const count = { passed: 0, failed: 0, skipped: 0 };
let browser = await launch();
let scope;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    await scope?.end();
    await browser.close();
    process.exit(1);
  });
}

for (const { name, fn, timeout } of chosen) {
  if (!browser.isConnected()) browser = await launch();
  const start = Date.now();
  scope = new Scope(name, browser);
  const error = await within(timeout, "the test", fn(scope)).then(() => null, (thrown) => thrown);
  const failed = (error && !(error instanceof Skip)) || scope.problems.length > 0;
  if (failed) await shoot(scope);
  await scope.end();
  const took = `${((Date.now() - start) / 1000).toFixed(1)} s`;
  if (error instanceof Skip) {
    count.skipped += 1;
    console.log(`skip  ${name}: ${error.message}`);
  } else if (failed || scope.problems.length > 0) {
    count.failed += 1;
    console.log(`FAIL  ${name} (${took})`);
    for (const text of [error?.stack, ...scope.problems, ...scope.notes].filter(Boolean)) {
      console.log(text.replace(/^/gm, "      "));
    }
  } else {
    count.passed += 1;
    console.log(`ok    ${name} (${took})`);
  }
}

await browser.close();
const { passed, failed, skipped } = count;
console.log(`${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);

async function shoot({ name, pages }) {
  fs.mkdirSync(out, { recursive: true });
  for (const [number, page] of pages.entries()) {
    const file = path.join(out, `${name.replace(/[^a-z0-9]+/gi, "-")}-${number}.png`);
    await page.screenshot({ path: file, timeout: 5_000 }).catch(() => {});
  }
}
