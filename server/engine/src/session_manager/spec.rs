//! Builds a session's launch record: steps, agent, environment, wall, floor.

use std::fs;
use std::path::{Path, PathBuf};

use opkit_domain::objective::Gate;
use opkit_domain::session::{
    Floor, FloorCommand, FloorWhen, GuardPolicy, Role, RunLimits, RunSpec, SYSTEM_READS, Step, WallSpec,
    files,
};
use opkit_domain::view::Credential;

use super::give_file;
use crate::agents::{Start, claude_settings};
use crate::data_dir::{mode, write_quickly};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::SessionRow;

/// Seconds for a check or the verify command.
const FLOOR_TIMEOUT_S: u64 = 600;
/// Bytes of a result bundle.
const BUNDLE_BYTES: u64 = 512 << 20;

/// Processes of one OS user.
const PROCESSES: u64 = 4096;

/// `<data>/agents/<agent>/hooks.json`: programs of the operator that may deny a call.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorHooks {
    pre_tool_use: Vec<Vec<String>>,
}

/// The operator's own hooks. A file that is not understood lets nothing start.
fn operator_hooks(root: &Path, agent: &str) -> Result<Vec<Vec<String>>> {
    let file = root.join("agents").join(agent).join("hooks.json");
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error.into()),
    };
    let hooks: OperatorHooks = serde_json::from_slice(&text).map_err(|error| {
        Error::Refused(format!("The hooks in {} are not understood: {error}.", file.display()))
    })?;
    let fits = |argv: &Vec<String>| argv.first().is_some_and(|program| program.starts_with('/'));
    if hooks.pre_tool_use.iter().all(fits) {
        Ok(hooks.pre_tool_use)
    } else {
        Err(Error::Refused(format!(
            "Each hook in {} begins with the absolute path of a program.",
            file.display()
        )))
    }
}

/// Title of the step that makes the result bundle; the exit file names it when it fails.
pub(crate) const TAKE_BRANCH: &str = "Taking the branch";

/// The places of one session.
struct Places {
    cwd: PathBuf,
    home: PathBuf,
    scratch: PathBuf,
    write: Vec<PathBuf>,
    policy: PathBuf,
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

    /// What the agent may read and not write: guard policy, Claude settings, git configuration; and its token.
    fn write_policy(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
        places: &Places,
    ) -> Result<()> {
        let policy = GuardPolicy {
            worktree: places.cwd.clone(),
            write: places.write.clone(),
            mode: self.wall_mode(),
            operator_hooks: operator_hooks(&self.dirs().root, &row.agent)?,
            tools: ["Bash", "Edit", "MultiEdit", "Write", "Read", "Glob", "Grep", "TodoWrite"]
                .map(str::to_owned)
                .to_vec(),
        };
        let file = places.policy.join("policy.json");
        write_quickly(&file, &serde_json::to_vec_pretty(&policy)?, 0o644)?;
        mode(&file, 0o644)?;
        let settings = places.policy.join("settings.json");
        write_quickly(&settings, &serde_json::to_vec_pretty(&claude_settings(self.runner(), &file))?, 0o444)?;
        let git = format!(
            "[safe]\n\tdirectory = {}\n[core]\n\thooksPath = {}\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n\
             [maintenance]\n\tauto = false\n[advice]\n\tdetachedHead = false\n[commit]\n\tgpgSign = false\n",
            config_value(&self.dirs().mirror(repo.id())),
            config_value(&self.dirs().root.join("bin/hooks")),
        );
        let config = places.policy.join("gitconfig");
        write_quickly(&config, git.as_bytes(), 0o644)?;
        mode(&config, 0o644)?;
        if row.role != Role::Review {
            let token = self.session_token(&row.id)?;
            let file = self.dirs().state(objective.id, row.role).join("token");
            give_file(&file, token.as_bytes(), 0o600, self.identity_of(row)?.as_ref())?;
        }
        Ok(())
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

    fn unpack_into(&self, row: &SessionRow, tree: &Path) -> Step {
        let tar = crate::programs::find("tar").unwrap_or_else(|| PathBuf::from("/bin/tar"));
        let mut unpack = step(
            "Unpacking the delivered commit",
            tree,
            &[&tar.to_string_lossy(), "-x", "-f", "-", "--no-same-owner", "-C", &tree.to_string_lossy()],
        );
        unpack.stdin = Some(self.dirs().session(&row.id).join("tree.tar"));
        unpack
    }

    fn floor(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
        places: &Places,
    ) -> Result<Option<Floor>> {
        let command = |title: &str, criterion, text: &str| FloorCommand {
            title: title.to_owned(),
            criterion,
            command: text.to_owned(),
            timeout_s: FLOOR_TIMEOUT_S,
        };
        let mut commands = Vec::new();
        let checks =
            objective.criteria.iter().enumerate().filter_map(|(at, c)| Some((at, c, c.check.as_deref()?)));
        commands.extend(repo.verify.as_deref().map(|text| command("verify", None, text)));
        commands.extend(checks.map(|(at, criterion, check)| command(&criterion.text, Some(at), check)));
        if commands.is_empty() {
            return Ok(None);
        }
        if let Some(setup) = &repo.setup {
            commands.insert(0, command("set-up", None, setup));
        }
        if row.role == Role::Review {
            // Set-up, verify and checks run the worker's code. It gets an export and a home of its own, and nothing
            // of what the reviewer reads or writes afterwards.
            let [cwd, home] = self.floor_places(row);
            let write = vec![cwd.clone(), home.clone()];
            let text = |path: &Path| path.to_string_lossy().into_owned();
            let unpack = Step { extra_write: write.clone(), ..self.unpack_into(row, &cwd) };
            let mut clear = step(
                "Clearing the export of the checks",
                &home,
                &["/usr/bin/find", &text(&cwd), &text(&home), "-mindepth", "1", "-delete"],
            );
            clear.extra_write = write.clone();
            clear.may_fail = true;
            return Ok(Some(Floor {
                when: FloorWhen::BeforeAgent,
                prepare: vec![unpack],
                env: [("HOME", &home), ("TMPDIR", &home), ("OPKIT_SCRATCH", &home), ("OPKIT_WORKTREE", &cwd)]
                    .map(|(name, path)| (name.to_owned(), text(path)))
                    .to_vec(),
                cwd,
                commands,
                write: Some(write),
                clear: vec![clear],
            }));
        }
        if objective.facts.gate != Gate::None {
            return Ok(None);
        }
        // The agent knows these names and may have put something there; its processes are gone.
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let [export, home] =
            ["floor", "floor-home"].map(|name| places.scratch.join(format!("{name}-{}", row.id.short())));
        let git = text(self.git().program());
        let clear = |title: &str| {
            step(title, &places.scratch, &["/bin/rm", "-rf", "--", &text(&export), &text(&home)])
        };
        let prepare = vec![
            clear("Clearing the place of the checks"),
            step("Making a home for the checks", &places.scratch, &["/bin/mkdir", "--", &text(&home)]),
            step(
                "Exporting the delivered commit",
                &places.scratch,
                &[
                    &git,
                    "clone",
                    "-q",
                    "--shared",
                    // What is delivered, whatever the agent left checked out.
                    "--branch",
                    &objective.branch(),
                    "--",
                    &text(&places.cwd),
                    &text(&export),
                ],
            ),
        ];
        // Configuration that the agent left in its own home must not answer for the commit.
        let env = [("HOME", &home), ("TMPDIR", &home), ("OPKIT_WORKTREE", &export)];
        Ok(Some(Floor {
            when: FloorWhen::AfterAgent,
            prepare,
            env: env.map(|(name, path)| (name.to_owned(), text(path))).to_vec(),
            clear: vec![Step { may_fail: true, ..clear("Clearing the export of the checks") }],
            cwd: export,
            commands,
            write: None,
        }))
    }

    /// Export and home of a review's floor.
    pub(super) fn floor_places(&self, row: &SessionRow) -> [PathBuf; 2] {
        ["floor", "floor-home"].map(|name| self.dirs().review(&row.id).join(name))
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

fn step(title: &str, cwd: &Path, argv: &[&str]) -> Step {
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

/// A path as a git configuration value.
fn config_value(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\""))
}

/// Another address of the model's API, for gateways: one line in `<data>/claude-base-url`.
fn base_url(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("claude-base-url")).ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace())).then(|| text.to_owned())
}
