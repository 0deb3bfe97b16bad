// The real binary with a data directory of its own: started, asked by its command line, killed, started again.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { within } from "./harness.mjs";
import { waitUntil } from "./wait.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const binary = process.env.OPKIT_BIN ?? path.join(root, "target/debug/opkit");
const site = process.env.OPKIT_SITE ?? path.join(root, "dist");

/** Nothing of the developer's own settings. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(OPKIT_|MAX_|RUST_LOG$|GIT_)/.test(name)),
);

export const OWNER = { name: "owner", password: "correct horse battery staple" };

/** A folder another OS user can pass: the agents do not run as the server's user. */
export function openFolder(t, name) {
  const base = fs.existsSync("/var/tmp") ? "/var/tmp" : os.tmpdir();
  const folder = fs.mkdtempSync(path.join(base, `opkit-e2e-${name}-`));
  fs.chmodSync(folder, 0o711);
  t.defer(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  return folder;
}

/** Runs a program to its end. */
export function run(program, args, { input = "", ok = true, env = {}, cwd } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env: { ...environment, ...env }, stdio: "pipe" });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk) => (stdout += chunk));
    child.stderr.on("data", (chunk) => (stderr += chunk));
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    child.on("error", reject);
    child.on("close", (code) => {
      if (ok && code !== 0) reject(new Error(`${program} ${args.join(" ")}: exit ${code}\n${stdout}${stderr}`));
      else resolve({ code, stdout, stderr });
    });
  });
}

export class Server {
  constructor(t, data) {
    this.t = t;
    this.data = data;
    this.listen = "127.0.0.1:0";
    this.log = "";
  }

  async start() {
    this.log = "";
    this.child = spawn(binary, ["serve", "--data", this.data, "--listen", this.listen], {
      cwd: this.data,
      env: { ...environment, OPKIT_SITE: site },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.gone = new Promise((done) => this.child.on("exit", (code, signal) => done({ code, signal })));
    this.child.on("error", (error) => (this.log += error.message));
    for (const pipe of [this.child.stdout, this.child.stderr]) pipe.on("data", (chunk) => (this.log += chunk));
    const ended = this.gone.then(({ code, signal }) => {
      throw new Error(`the server ended at once (${code ?? signal}): ${this.log}`);
    });
    ended.catch(() => {});
    const listening = () => /listening on http:\/\/\S+/.test(this.log);
    await Promise.race([waitUntil("the server listens", listening, { timeout: 30_000 }), ended]);
    this.url = /listening on (http:\/\/[^\s/]+)/.exec(this.log)[1];
    // Started again it must be found at the same place.
    this.listen = this.url.slice("http://".length);
  }

  /** The one-time link that makes the owner. */
  async setupLink() {
    await waitUntil("the set-up link is printed", () => /http:\/\/\S*setup\S*/.test(this.log));
    return /http:\/\/\S*setup\S*/.exec(this.log)[0];
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.gone;
  }

  async stop() {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode) return;
    this.child.kill("SIGTERM");
    await within(15_000, "the server ends on TERM", this.gone).catch(() => this.kill());
  }

  /** The command line, against this data directory. */
  cli(args, options = {}) {
    return run(binary, [...args, "--data", this.data], { ...options, env: { OPKIT_SITE: site } });
  }

  async objective(id) {
    return JSON.parse((await this.cli(["objective", "show", String(id), "--json"])).stdout);
  }

  /** Adds an objective and returns its number. */
  async add(fields) {
    const args = ["objective", "add"];
    for (const [name, value] of Object.entries(fields)) {
      if (value === true) args.push(`--${name}`);
      else args.push(`--${name}`, String(value));
    }
    return Number((await this.cli(args)).stdout.trim());
  }

  async until(id, status, timeout = 60_000) {
    return waitUntil(`objective ${id} is in ${status}`, async () => {
      const objective = await this.objective(id);
      if (objective.status === status) return objective;
      throw new Error(`it is in ${objective.status}, attention ${objective.attention}`);
    }, { timeout, every: 150 });
  }
}

/** A running server. With `owner` (the default) there is an owner already. */
export async function startServer(t, { owner = true } = {}) {
  if (!fs.existsSync(binary)) throw new Error(`there is no ${binary}: run cargo xtask build`);
  const server = new Server(t, path.join(openFolder(t, "data"), "opkit"));
  fs.mkdirSync(server.data, { mode: 0o711 });
  if (owner) {
    await server.cli(["setup", "--owner", OWNER.name, "--password-stdin"], { input: `${OWNER.password}\n` });
  }
  await server.start();
  t.defer(async () => {
    t.note(`server log:\n${server.log.slice(-3000)}`);
    // Sessions outlive the server by design; these must not.
    await server.cli(["stop-all"], { ok: false }).catch(() => {});
    await server.stop();
    await endSessions(server.data);
  });
  return server;
}

/** Ends the runners and tmux servers that belong to a data directory. */
async function endSessions(data) {
  const ours = () =>
    fs.readdirSync("/proc").filter((pid) => {
      if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
      try {
        return fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`${data}/`);
      } catch {
        return false;
      }
    });
  if (!fs.existsSync("/proc/self")) return;
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    for (const pid of ours()) {
      try {
        process.kill(Number(pid), signal);
      } catch {
        // It ended by itself.
      }
    }
    const none = waitUntil("its sessions are gone", () => ours().length === 0, { timeout: 5_000 });
    if (await none.catch(() => false)) return;
  }
}

/** A small git repository with one commit on `main`. */
export async function sampleRepository(t, name = "sample") {
  const folder = path.join(openFolder(t, "repo"), name);
  fs.mkdirSync(folder, { mode: 0o755 });
  fs.writeFileSync(path.join(folder, "README.md"), `# ${name}\n`);
  const git = (...args) =>
    run("git", ["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false", ...args], { cwd: folder });
  await git("init", "--quiet", "--initial-branch=main");
  await git("add", ".");
  await git("commit", "--quiet", "-m", "First commit");
  return folder;
}

/** A sample repository, registered under `name`. */
export async function addRepository(t, server, name = "sample") {
  const folder = await sampleRepository(t, name);
  await server.cli(["repos", "add", folder, "--name", name, "--base", "main"]);
  return folder;
}
