//! Builds a session's launch record: steps, agent, environment, wall, floor.

use std::fs;
use std::path::{Path, PathBuf};

use opkit_domain::session::{Role, RunLimits, RunSpec, SYSTEM_READS, Step, WallSpec, files};
use opkit_domain::view::Credential;

use crate::agents::Start;
use crate::data_dir::write_quickly;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::SessionRow;

/// Bytes of a result bundle.
const BUNDLE_BYTES: u64 = 512 << 20;

/// Processes of one OS user.
const PROCESSES: u64 = 4096;

/// Title of the step that makes the result bundle; the exit file names it when it fails.
pub(crate) const TAKE_BRANCH: &str = "Taking the branch";

/// The places of one session.
pub(super) struct Places {
    pub(super) cwd: PathBuf,
    pub(super) home: PathBuf,
    pub(super) scratch: PathBuf,
    pub(super) write: Vec<PathBuf>,
    pub(super) policy: PathBuf,
}

impl Engine {
    pub(super) async fn build_spec(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
    ) -> Result<RunSpec> {
        let places = self.places(row, objective);
        let session = self.dirs().session(&row.id);
        self.write_policy(row, objective, repo, &places)?;
        self.lend_login(row)?;
        let context = self.context_document(row, objective, repo).await?;
        write_quickly(&session.join(files::CONTEXT), context.text.as_bytes(), 0o600)?;
        write_quickly(&session.join("delivered"), context.last_message.to_string().as_bytes(), 0o600)?;
        let identity = self.identity_of(row)?;
        let settings = places.policy.join("settings.json");
        let agent = self.agents().spec(
            &row.agent,
            &Start {
                role: row.role,
                session: &row.id,
                script: objective.script.as_deref(),
                runner: self.runner(),
                settings: &settings,
                identity: identity.as_ref(),
            },
        )?;
        let review = row.role == Role::Review;
        let banner = format!(
            "#{} {} · {} · round {} · {} on {}{}",
            objective.id,
            objective.title,
            row.role,
            row.round,
            agent.name,
            row.account,
            if agent.name == "demo" { " (scripted demo agent)" } else { "" },
        );
        Ok(RunSpec {
            session: row.id.clone(),
            objective: objective.id,
            role: row.role,
            banner,
            prepare: match row.role {
                Role::Review => self.unpack(row),
                Role::Work => {
                    let mut steps = self.checkout(objective, repo, &places);
                    for restore in self.restores(objective, identity.as_ref()).await? {
                        let argv: Vec<&str> = restore.argv.iter().map(String::as_str).collect();
                        let step = step(&restore.title, &places.cwd, &argv);
                        steps.push(Step { may_fail: true, ..step });
                    }
                    steps
                }
                Role::Plan | Role::Delegate => {
                    let mut steps = self.checkout(objective, repo, &places);
                    steps.iter_mut().for_each(|step| step.extra_write = vec![places.cwd.clone()]);
                    steps
                }
            },
            env: self.environment(row, objective, &places),
            secret_env: self.secrets(row)?,
            identity,
            wall: self.wall(row, repo, &places),
            limits: RunLimits {
                wall_clock_s: crate::dispatcher::WALL_CLOCK_S,
                idle_s: 30 * 60,
                record_bytes: 256 << 20,
                interrupt_s: 10,
                term_s: 5,
            },
            floor: self.floor(row, objective, repo, &places)?,
            floor_copy: review.then(|| self.dirs().review(&row.id)),
            collect: if row.role == Role::Work { self.collect(objective, &places)? } else { vec![] },
            context: session.join(files::CONTEXT),
            policy: Some(places.policy),
            // The limit counts per user: only a user of the account's own may have one.
            processes: row.os_user.is_some().then_some(PROCESSES),
            agent_version: self.probed_version(&row.agent)?,
            cwd: places.cwd,
            agent,
            boot: crate::clock::boot(),
        })
    }

    fn places(&self, row: &SessionRow, objective: &Objective) -> Places {
        let policy = self.dirs().policy(&row.id);
        if row.role == Role::Review {
            let review = self.dirs().review(&row.id);
            let home = review.join("home");
            let write = vec![review.join("tree"), review.join("out"), home.clone()];
            return Places { cwd: review.join("tree"), scratch: home.clone(), home, write, policy };
        }
        let home = self.dirs().state(objective.id, row.role);
        let scratch = self.dirs().scratch(objective.id);
        let worktree = self.dirs().worktree(objective.id);
        let mut write = vec![self.dirs().memory(objective.id), scratch.clone(), home.clone()];
        // Whoever plans or delegates reads the tree and never writes in it.
        if row.role == Role::Work {
            write.insert(0, worktree.clone());
        }
        Places { cwd: worktree, home, scratch, write, policy }
    }

    fn environment(&self, row: &SessionRow, objective: &Objective, places: &Places) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut path = vec![];
        if let Some(dir) = self.runner().parent() {
            path.push(text(dir));
        }
        if row.agent == "claude"
            && let Some(dir) = self.agents().claude().and_then(Path::parent)
        {
            path.push(text(dir));
        }
        path.push(crate::programs::PATH.to_owned());
        let name = row.git_name.clone().unwrap_or_else(|| row.account.clone());
        let email = row.git_email.clone().unwrap_or_else(|| format!("{}@opkit.invalid", row.account));
        let mut env: Vec<(String, String)> = [
            ("PATH", path.join(":")),
            ("HOME", text(&places.home)),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "dumb".into()),
            ("SHELL", "/bin/sh".into()),
            ("USER", row.account.clone()),
            ("LOGNAME", row.account.clone()),
            ("TMPDIR", text(&places.scratch)),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", text(&places.policy.join("gitconfig"))),
            ("GIT_AUTHOR_NAME", name.clone()),
            ("GIT_AUTHOR_EMAIL", email.clone()),
            ("GIT_COMMITTER_NAME", name),
            ("GIT_COMMITTER_EMAIL", email),
            ("OPKIT_SESSION", row.id.to_string()),
            ("OPKIT_OBJECTIVE", objective.id.to_string()),
            ("OPKIT_ROLE", row.role.to_string()),
            ("OPKIT_WORKTREE", text(&places.cwd)),
            ("OPKIT_SCRATCH", text(&places.scratch)),
            ("OPKIT_POLICY", text(&places.policy.join("policy.json"))),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let mut add = |name: &str, value: String| env.push((name.to_owned(), value));
        if row.role == Role::Review {
            add("OPKIT_REVIEW", text(&self.dirs().review(&row.id)));
        } else {
            add("OPKIT_MEMORY", text(&self.dirs().memory(objective.id)));
            add("OPKIT_DOOR_FILE", text(&self.dirs().door_file()));
            add("OPKIT_TOKEN_FILE", text(&places.home.join("token")));
        }
        if row.agent == "claude" {
            for (name, value) in crate::agents::CLAUDE_ENV {
                add(name, value.to_owned());
            }
            add("CLAUDE_CONFIG_DIR", text(&self.claude_config(row)));
            if let Some(url) = base_url(&self.dirs().root) {
                add("ANTHROPIC_BASE_URL", url);
            }
        }
        if let Ok(speed) = std::env::var("OPKIT_DEMO_SPEED") {
            add("OPKIT_DEMO_SPEED", speed);
        }
        env
    }

    /// The credential goes from a 0600 file into one variable of the agent, nowhere else.
    fn secrets(&self, row: &SessionRow) -> Result<Vec<(String, PathBuf)>> {
        if row.agent != "claude" {
            return Ok(vec![]);
        }
        let keys = self.dirs().root.join("keys");
        let file = match self.credential(&row.account, row.os_user.as_deref()) {
            Credential::OwnKey => keys.join(&row.account),
            Credential::SharedKey => keys.join("anthropic"),
            // Its file stands in the session's own configuration directory.
            Credential::Login => return Ok(vec![]),
            Credential::None => {
                return Err(Error::Refused(format!(
                    "Account {} has no credential for Claude Code. Run: opkit accounts key {} --stdin",
                    row.account, row.account
                )));
            }
        };
        // Long-lived tokens and API keys go into different variables.
        let text = fs::read_to_string(&file)?;
        let oauth = text.trim().starts_with("sk-ant-oat");
        let name = if oauth { "CLAUDE_CODE_OAUTH_TOKEN" } else { "ANTHROPIC_API_KEY" };
        Ok(vec![(name.to_owned(), file)])
    }

    fn wall(&self, row: &SessionRow, repo: &RepoRow, places: &Places) -> WallSpec {
        let root = &self.dirs().root;
        let short = row.id.short();
        WallSpec {
            mode: self.wall_mode(),
            write: places.write.clone(),
            read: Some(self.readable(row, repo, places)),
            // One user for every account: only the filter keeps a session from the sockets. A user of its own cannot
            // pass the directories they are in.
            block_unix_sockets: row.os_user.is_none(),
            prove_no_write: vec![
                root.join(format!("proof-{short}")),
                self.dirs().mirror(repo.id()).join(format!("proof-{short}")),
                PathBuf::from(format!("/tmp/opkit-proof-{short}")),
            ],
            prove_no_read: vec![
                self.dirs().database(),
                self.dirs().session(&row.id).join(files::SPEC),
                // What a reviewer must not see, and no session of somebody else's.
                if row.role == Role::Review {
                    self.dirs().memory(row.objective)
                } else {
                    self.dirs().root.join("review")
                },
            ],
            prove_no_connect: vec![self.dirs().tmux_socket(&row.account), self.dirs().control_socket()],
        }
    }

    /// The allow-list of reads: the system, the agent's own program, and this session's places. Whatever is not
    /// named here does not exist for a session: homes, other objectives, the server's data.
    fn readable(&self, row: &SessionRow, repo: &RepoRow, places: &Places) -> Vec<PathBuf> {
        let mut list: Vec<PathBuf> = SYSTEM_READS.iter().map(PathBuf::from).collect();
        list.extend(places.write.iter().cloned());
        list.push(places.cwd.clone());
        list.push(places.policy.clone());
        list.push(self.dirs().root.join("bin"));
        if row.role == Role::Review {
            // The whole review directory, and nothing of the mirror: no history, no notes.
            list.push(self.dirs().review(&row.id));
        } else {
            list.push(self.dirs().mirror(repo.id()));
            list.push(self.dirs().root.join("door"));
        }
        if row.agent == "claude"
            && let Some(dir) = self.agents().claude().and_then(|path| path.canonicalize().ok())
        {
            list.extend(program_place(&dir));
            list.extend(self.agents().claude().and_then(program_place));
        }
        if let Ok(text) = fs::read_to_string(self.dirs().root.join("confinement.read")) {
            let more = text.lines().map(str::trim).filter(|line| line.starts_with('/') && *line != "/");
            list.extend(more.map(PathBuf::from));
        }
        list
    }

    /// Steps before the agent. The checkout stands on its branch already: the server made it, before any agent saw it.
    fn checkout(&self, objective: &Objective, repo: &RepoRow, places: &Places) -> Vec<Step> {
        let git = self.git().program().to_string_lossy().into_owned();
        let mut steps = Vec::new();
        if objective.worktree_ready {
            // A git that was killed leaves its lock, and nothing of the last session is alive.
            let git_dir = places.cwd.join(".git");
            let find =
                ["/usr/bin/find", &git_dir.to_string_lossy(), "-name", "*.lock", "-type", "f", "-delete"];
            let mut locks = step("Clearing locks of the last session", &places.cwd, &find);
            locks.may_fail = true;
            steps.push(locks);
        } else if let Some(setup) = &repo.setup {
            steps.push(step("Setting up", &places.cwd, &["/bin/sh", "-c", setup]));
        }
        if has_results(&self.dirs().mirror(repo.id()), &objective.branch()) {
            let refspec = "+refs/heads/obj/*:refs/remotes/siblings/*";
            let fetch = [&git, "fetch", "-q", "--no-tags", "origin", refspec];
            let mut siblings = step("Fetching siblings' branches", &places.cwd, &fetch);
            siblings.may_fail = true;
            steps.push(siblings);
        }
        steps
    }

    /// What is taken out of the worktree when nothing of the session is alive.
    fn collect(&self, objective: &Objective, places: &Places) -> Result<Vec<Step>> {
        let git = self.git().program().to_string_lossy().into_owned();
        let branch = format!("refs/heads/{}", objective.branch());
        let base = objective.base_commit.as_deref().unwrap_or_default();
        let runner = self.runner().to_string_lossy().into_owned();
        let mut rescue = step("Keeping what is not committed", &places.cwd, &[&runner, "snapshot", &git]);
        rescue.stdout = Some(PathBuf::from(files::RESCUE_BUNDLE));
        rescue.may_fail = true;
        rescue.max_output = BUNDLE_BYTES;
        rescue.timeout_s = 60;
        let mut result = step(
            TAKE_BRANCH,
            &places.cwd,
            &[&git, "bundle", "create", "-q", "-", &branch, &format!("^{base}")],
        );
        result.stdout = Some(PathBuf::from(files::RESULT_BUNDLE));
        result.may_fail = true;
        result.max_output = BUNDLE_BYTES;
        Ok(vec![rescue, result])
    }

    /// Unpacks the export of the delivered commit for a reviewer.
    fn unpack(&self, row: &SessionRow) -> Vec<Step> {
        vec![self.unpack_into(row, &self.dirs().review(&row.id).join("tree"))]
    }

    pub(super) fn unpack_into(&self, row: &SessionRow, tree: &Path) -> Step {
        let tar = crate::programs::find("tar").unwrap_or_else(|| PathBuf::from("/bin/tar"));
        let mut unpack = step(
            "Unpacking the delivered commit",
            tree,
            &[&tar.to_string_lossy(), "-x", "-f", "-", "--no-same-owner", "-C", &tree.to_string_lossy()],
        );
        unpack.stdin = Some(self.dirs().session(&row.id).join("tree.tar"));
        unpack
    }
}

/// What must be readable to start a program: its directory, unless that is somebody's home or all there is.
fn program_place(program: &Path) -> Option<PathBuf> {
    let dir = program.parent()?;
    let too_much = dir.parent().is_none() || crate::os_users::is_a_home(dir);
    Some(if too_much { program.to_owned() } else { dir.to_owned() })
}

/// Whether the mirror holds results of other objectives: a fetch of nothing would only cost time.
fn has_results(mirror: &Path, own: &str) -> bool {
    let own = own.rsplit('/').next().unwrap_or(own);
    let loose = fs::read_dir(mirror.join("refs/heads/obj"))
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name() != own));
    let packed = || {
        let text = fs::read_to_string(mirror.join("packed-refs")).unwrap_or_default();
        text.lines().any(|line| line.split_once(" refs/heads/obj/").is_some_and(|(_, name)| name != own))
    };
    loose || packed()
}

pub(super) fn step(title: &str, cwd: &Path, argv: &[&str]) -> Step {
    Step {
        title: title.to_owned(),
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        cwd: cwd.to_owned(),
        env: vec![],
        stdin: None,
        stdout: None,
        timeout_s: 600,
        max_output: 1 << 20,
        may_fail: false,
        extra_write: vec![],
    }
}

/// Another address of the model's API, for gateways: one line in `<data>/claude-base-url`.
fn base_url(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("claude-base-url")).ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace())).then(|| text.to_owned())
}
