// The door: origins, hosts, the content policy.
import assert from "node:assert/strict";
import http from "node:http";
import { BoardPage } from "../pages/board.mjs";
import { openAsOwner } from "../support/browser.mjs";
import { test } from "../support/harness.mjs";
import { startServer } from "../support/server.mjs";

/** A request with headers that a browser's own `fetch` would not let us set. */
function send(server, path, { method = "GET", headers = {}, body = "" } = {}) {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, path, method, headers }, (response) => {
      response.resume();
      response.on("end", () => resolve(response));
    });
    request.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve(response);
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function cookieOf(page) {
  const cookies = await page.context().cookies();
  return cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
}

test("a foreign page can post nothing and open no socket", async (t) => {
  const server = await startServer(t);
  const page = await openAsOwner(t, server);
  const cookie = await cookieOf(page);
  const foreign = { cookie, origin: "http://evil.example", "sec-fetch-site": "cross-site" };
  for (const path of ["/login", "/logout", "/api/v1/stop-all", "/api/v1/objectives"]) {
    const response = await send(server, path, {
      method: "POST",
      headers: { ...foreign, "content-type": "application/json" },
      body: "{}",
    });
    assert.equal(response.statusCode, 403, path);
  }
  const upgrade = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  };
  const socket = await send(server, "/ws/board?after=0", { headers: { ...foreign, ...upgrade } });
  assert.equal(socket.statusCode, 403);
});

test("an unknown host name is refused", async (t) => {
  const server = await startServer(t);
  const { statusCode } = await send(server, "/", { headers: { host: "evil.example" } });
  assert.ok(statusCode >= 400 && statusCode < 500, `status ${statusCode}`);
});

test("the policy has a fresh nonce and nothing breaks it", async (t) => {
  const server = await startServer(t);
  const page = await openAsOwner(t, server);
  const nonces = [];
  for (const path of ["/", "/needs", "/health", "/new"]) {
    const response = await page.goto(path);
    const policy = response.headers()["content-security-policy"] ?? "";
    nonces.push(/script-src [^;]*'nonce-([^']+)'/.exec(policy)?.[1]);
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /script-src[^;]*'unsafe-inline'/);
    await page.waitForLoadState("networkidle");
  }
  assert.ok(nonces.every(Boolean), "a page has no nonce");
  assert.equal(new Set(nonces).size, nonces.length, "a nonce came twice");
  await new BoardPage(page).open();
});

test("a page of an older build loads itself anew", async (t) => {
  const server = await startServer(t);
  const response = await send(server, "/pkg/000000000000/frontend.js");
  assert.equal(response.statusCode, 404);
  assert.match(response.headers["x-opkit-build"] ?? "", /^[0-9a-f]{12}$/);
});
