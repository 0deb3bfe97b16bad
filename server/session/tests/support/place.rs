//! A data directory in miniature: mirror, worktree, session directory, policy, and the real binary.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::allow_attributes,
    reason = "each test uses a part"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::session::{
    AgentSpec, ExitFile, Floor, FloorCommand, FloorWhen, GuardPolicy, Identity, OutputFormat, Role,
    RunLimits, RunSpec, Step, WallMode, WallSpec, files,
};
use tempfile::TempDir;

pub const ID: &str = "5c1e7a2e-0000-4000-8000-000000000001";
const NOBODY: u32 = 65534;

pub struct Place {
    temp: TempDir,
    pub spec: RunSpec,
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until `what` is true, or fails with it.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within 60 s: {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

fn git(cwd: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]);
    let output = command.args(args).current_dir(cwd).output().expect("git starts");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Place {
    /// A repository with one commit, an empty worktree directory and a session that runs the demo script.
    pub fn new(script: &str) -> Place {
        let temp = tempfile::Builder::new().prefix("opkit-").tempdir().expect("a directory");
        let root = temp.path().canonicalize().expect("its path");
        fs::set_permissions(&root, Permissions::from_mode(0o711)).expect("mode");
        let at = |path: &str| root.join(path);
        for dir in [
            "bin",
            "policy",
            "seed",
            "door",
            "db",
            "work/42/cc-worktree-42",
            "work/42/memory",
            "work/42/scratch",
            "work/42/state/work",
            "work/41/cc-worktree-41",
        ] {
            fs::create_dir_all(at(dir)).expect("a directory");
        }
        fs::create_dir_all(at("sessions").join(ID)).expect("a session directory");
        fs::set_permissions(at("sessions"), Permissions::from_mode(0o700)).expect("mode");
        fs::set_permissions(at("db"), Permissions::from_mode(0o700)).expect("mode");
        fs::write(at("db/opkit.db"), "secret").expect("a database");
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_opkit-session"));
        if fs::hard_link(&binary, at("bin/opkit-session")).is_err() {
            fs::copy(&binary, at("bin/opkit-session")).expect("the binary");
        }
        fs::write(at("seed/README.md"), "# Seed\n").expect("a file");
        git(&at("seed"), &["init", "-q"]);
        git(&at("seed"), &["add", "-A"]);
        git(&at("seed"), &["commit", "-q", "-m", "Seed"]);
        git(&root, &["clone", "-q", "--bare", "seed", "mirror.git"]);
        fs::write(
            at("policy/gitconfig"),
            "[safe]\n\tdirectory = *\n[user]\n\tname = Demo\n\temail = demo@example.org\n",
        )
        .expect("a file");
        let write: Vec<PathBuf> = ["cc-worktree-42", "memory", "scratch", "state/work"]
            .iter()
            .map(|name| at("work/42").join(name))
            .collect();
        let policy = GuardPolicy {
            worktree: at("work/42/cc-worktree-42"),
            write: write.clone(),
            tools: ["Bash", "Edit", "Read", "Write", "Glob", "Grep"].map(str::to_owned).to_vec(),
            mode: WallMode::Enforced,
            operator_hooks: vec![],
        };
        fs::write(at("policy/policy.json"), serde_json::to_vec(&policy).expect("json")).expect("a policy");
        if is_root() {
            for dir in &write {
                chown(dir, Some(NOBODY), Some(NOBODY)).expect("chown");
            }
        }
        let spec = spec(&root, script, write);
        let place = Place { temp, spec };
        place.context(&[]);
        place
    }

    pub fn root(&self) -> PathBuf {
        self.temp.path().canonicalize().expect("its path")
    }

    pub fn session(&self) -> PathBuf {
        self.root().join("sessions").join(ID)
    }

    pub fn worktree(&self) -> PathBuf {
        self.root().join("work/42/cc-worktree-42")
    }

    /// Writes the context document.
    pub fn context(&self, findings: &[&str]) {
        let block = serde_json::json!({"objective": 42, "title": "Describe the seed", "brief": "Write `docs/seed.md`.",
            "type": "bug", "branch": "obj/42", "round": 1, "session": ID, "findings": findings,
            "criteria": [
                {"index": 0, "text": "docs/seed.md exists", "check": "test -f docs/seed.md && grep -q 'the seed' docs/seed.md"},
                {"index": 1, "text": "It is described", "check": null}]});
        let text = format!("# Objective\n\nText.\n\n```json opkit\n{block:#}\n```\n");
        fs::write(self.session().join(files::CONTEXT), text).expect("a context document");
    }

    /// An agent of one's own: a shell script behind the wall, with the binary in `$1`.
    pub fn agent_script(&mut self, script: &str, format: OutputFormat) {
        let binary = self.root().join("bin/opkit-session").display().to_string();
        self.spec.agent.argv = ["/bin/sh", "-c", script, "sh", &binary].map(str::to_owned).to_vec();
        self.spec.agent.format = format;
    }

    pub fn start(&self) -> Child {
        self.start_with_output(Stdio::null())
    }

    /// Starts the runner with this in place of the window.
    pub fn start_with_output(&self, output: Stdio) -> Child {
        fs::write(self.session().join(files::SPEC), serde_json::to_vec(&self.spec).expect("json"))
            .expect("a spec");
        let mut command = Command::new(self.root().join("bin/opkit-session"));
        command.arg("run").arg(self.session()).env_remove("TMUX");
        command.stdin(Stdio::null()).stdout(output).spawn().expect("the runner starts")
    }

    /// Runs the session to its end.
    pub fn run(&self) -> ExitFile {
        let status = self.start().wait().expect("the runner ends");
        assert!(status.success(), "the runner left with {status}");
        self.exit()
    }

    pub fn exit(&self) -> ExitFile {
        let text = fs::read(self.session().join(files::EXIT)).expect("an exit file");
        serde_json::from_slice(&text).expect("a valid exit file")
    }

    /// All kept segments, concatenated; they must fit together without a hole.
    pub fn record(&self) -> String {
        let dir = self.session().join(files::RECORD);
        let entries = fs::read_dir(dir).expect("a record").map(|entry| entry.expect("an entry").path());
        let mut segments: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|e| e == "seg")).collect();
        segments.sort();
        let mut all = Vec::new();
        let mut next = None;
        for segment in segments {
            let offset: u64 =
                segment.file_stem().and_then(|s| s.to_str()).expect("a name").parse().expect("an offset");
            assert!(next.is_none_or(|next| next == offset), "a hole before {}", segment.display());
            let bytes = fs::read(&segment).expect("a segment");
            next = Some(offset + bytes.len() as u64);
            all.extend(bytes);
        }
        String::from_utf8(all).expect("UTF-8")
    }
}

fn spec(root: &Path, script: &str, write: Vec<PathBuf>) -> RunSpec {
    let at = |path: &str| root.join(path);
    let text = |path: &str| at(path).display().to_string();
    let step = |title: &str, argv: &[&str], cwd: PathBuf| Step {
        title: title.to_owned(),
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        cwd,
        env: Vec::new(),
        stdin: None,
        stdout: None,
        timeout_s: 20,
        max_output: 64 << 20,
        may_fail: false,
        extra_write: Vec::new(),
    };
    let tree = at("work/42/cc-worktree-42");
    let mut bundle =
        step("Collecting the result", &["/usr/bin/git", "bundle", "create", "-", "obj/42"], tree.clone());
    bundle.stdout = Some(files::RESULT_BUNDLE.into());
    RunSpec {
        session: ID.parse::<SessionId>().expect("an id"),
        objective: ObjectiveId(42),
        role: Role::Work,
        banner: "#42 Describe the seed".to_owned(),
        boot: String::new(),
        prepare: vec![
            step(
                "Making the worktree",
                &["/usr/bin/git", "clone", "-q", "--shared", &text("mirror.git"), "."],
                tree.clone(),
            ),
            step("Making the branch", &["/usr/bin/git", "switch", "-q", "-c", "obj/42"], tree.clone()),
        ],
        agent: AgentSpec {
            name: "demo".to_owned(),
            argv: [&text("bin/opkit-session"), "demo-agent", "--role", "work", "--script", script]
                .map(str::to_owned)
                .to_vec(),
            format: OutputFormat::ClaudeStreamJson,
            polite_signal: 2,
        },
        cwd: tree,
        context: at("sessions").join(ID).join(files::CONTEXT),
        env: environment(root),
        secret_env: Vec::new(),
        identity: is_root().then_some(Identity { uid: NOBODY, gid: NOBODY, groups: Vec::new() }),
        wall: WallSpec {
            mode: WallMode::Enforced,
            write,
            read: None,
            block_unix_sockets: true,
            prove_no_write: vec![at("policy/proof"), at("sessions")],
            prove_no_read: Vec::new(),
            prove_no_connect: vec![at("run/control.sock")],
        },
        processes: None,
        agent_version: None,
        policy: Some(at("policy")),
        limits: RunLimits {
            wall_clock_s: 60,
            idle_s: 30,
            record_bytes: 256 << 20,
            interrupt_s: 5,
            term_s: 2,
        },
        floor: None,
        floor_copy: None,
        collect: vec![bundle],
    }
}

fn environment(root: &Path) -> Vec<(String, String)> {
    let text = |path: &str| root.join(path).display().to_string();
    let env = [
        ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", text("bin"))),
        ("HOME", text("work/42/state/work")),
        ("TMPDIR", text("work/42/scratch")),
        ("LANG", "C.UTF-8".to_owned()),
        ("GIT_CONFIG_GLOBAL", text("policy/gitconfig")),
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ("GIT_TERMINAL_PROMPT", "0".to_owned()),
        ("OPKIT_SESSION", ID.to_owned()),
        ("OPKIT_WORKTREE", text("work/42/cc-worktree-42")),
        ("OPKIT_MEMORY", text("work/42/memory")),
        ("OPKIT_SCRATCH", text("work/42/scratch")),
        ("OPKIT_POLICY", text("policy/policy.json")),
        ("OPKIT_DOOR_FILE", text("door/session-door")),
        ("OPKIT_DEMO_SPEED", "0".to_owned()),
    ];
    env.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// A floor of shell commands in the worktree itself.
pub fn floor(when: FloorWhen, cwd: PathBuf, commands: &[&str]) -> Floor {
    let commands = commands.iter().map(|command| FloorCommand {
        title: format!("verify {command}"),
        criterion: None,
        command: (*command).to_owned(),
        timeout_s: 20,
    });
    Floor {
        when,
        prepare: Vec::new(),
        cwd,
        commands: commands.collect(),
        write: None,
        env: Vec::new(),
        clear: Vec::new(),
    }
}
