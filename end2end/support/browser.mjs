// Chromium: one for the run, a context for each window. Whatever a page complains about fails its test.
import { chromium } from "playwright-core";
import { LoginPage } from "../pages/login.mjs";

export function launch() {
  return chromium.launch({
    executablePath: process.env.OPKIT_CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-dev-shm-usage",
    ],
  });
}

/** Collected in the page before its own scripts run. */
function observe() {
  window.__shifts = [];
  document.addEventListener("securitypolicyviolation", (event) => {
    console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
  });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.__shifts.push(entry.value);
  }).observe({ type: "layout-shift", buffered: true });
}

/** A window with its own cookies. `allow`: patterns of console errors this test provokes on purpose. */
export async function openWindow(t, { url, script = true, width = 1440, height = 900, allow = [], touch = false } = {}) {
  const context = await t.browser.newContext({
    baseURL: url,
    javaScriptEnabled: script,
    viewport: { width, height },
    hasTouch: touch,
    isMobile: touch,
    reducedMotion: "reduce",
  });
  t.defer(() => context.close());
  if (script) await context.addInitScript(observe);
  const page = await context.newPage();
  t.pages.push(page);
  page.allow = [...allow];
  const complain = (kind, text) => {
    if (!page.allow.some((pattern) => pattern.test(text))) t.problem(`${kind}: ${text}`);
  };
  page.on("pageerror", (error) => complain("page error", error.stack ?? error.message));
  page.on("console", (message) => {
    if (message.type() === "error") complain("console", `${message.text()} (${message.location().url})`);
  });
  return page;
}

/** A window with the owner logged in, on the board. */
export async function openAsOwner(t, server, options = {}) {
  const page = await openWindow(t, { url: server.url, ...options });
  await new LoginPage(page).logIn();
  return page;
}

/** Until the page answers to clicks. */
export async function hydrated(page) {
  await page.waitForFunction(() => performance.getEntriesByName("hydrate-end").length > 0, null, { timeout: 30_000 });
}

/** How far the page's content has jumped so far. */
export function layoutShift(page) {
  return page.evaluate(() => window.__shifts.reduce((sum, value) => sum + value, 0));
}
