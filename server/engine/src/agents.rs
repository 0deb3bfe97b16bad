//! Agents: how each one is started. An adapter knows argv, output format and limits of one program.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use opkit_domain::ids::SessionId;
use opkit_domain::session::{AgentProbe, AgentSpec, Identity, OutputFormat, Role, SYSTEM_READS, WallMode};

use crate::error::{Error, Result};

/// Every agent there is.
pub(crate) const NAMES: [&str; 2] = ["claude", "demo"];

/// Scripts that a person may choose for the demo agent.
pub const DEMO_SCRIPTS: &[&str] = &[
    "good",
    "fails-then-good",
    "always-fails",
    "blocked",
    "hangs",
    "crashes",
    "floods",
    "floods-slow",
    "usage-limit",
    "usage-limit-always",
    "writes-outside",
    "slow",
    "asks-nothing",
    "links-artifact",
    "pipes-artifact",
    "review-errors",
    "wrong-nonce",
    "prose",
    "reviewer-crashes",
];

/// What every session of Claude Code has in its environment, beside its places and its credential.
pub(crate) const CLAUDE_ENV: [(&str, &str); 5] = [
    ("CLAUDE_CODE_SIMPLE", "0"),
    ("CLAUDE_CODE_MAX_RETRIES", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
];

/// The agents that this installation knows.
#[derive(Debug)]
pub(crate) struct Agents {
    claude: Option<PathBuf>,
}

/// What an adapter needs to build a command line.
pub(crate) struct Start<'a> {
    pub(crate) role: Role,
    pub(crate) session: &'a SessionId,
    pub(crate) script: Option<&'a str>,
    pub(crate) runner: &'a Path,
    pub(crate) settings: &'a Path,
    pub(crate) identity: Option<&'a Identity>,
}

impl Agents {
    pub(crate) fn new(claude: Option<PathBuf>) -> Agents {
        Agents { claude }
    }

    pub(crate) fn claude(&self) -> Option<&Path> {
        self.claude.as_deref()
    }

    /// Checks an agent's name when an objective is written.
    pub(crate) fn check(&self, name: &str, script: Option<&str>) -> Result<()> {
        match name {
            "demo" => match script {
                None => Ok(()),
                Some(script) => {
                    let (word, number) = match script.split_once(':') {
                        Some((word, number)) => (word, Some(number)),
                        None => (script, None),
                    };
                    let fits = number.is_none_or(|number| {
                        (1..=5).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
                    });
                    if DEMO_SCRIPTS.contains(&word) && fits {
                        Ok(())
                    } else if DEMO_SCRIPTS.contains(&word) {
                        Err(Error::BadInput(format!(
                            "What follows the colon of “{}” is a number of up to five digits, as in slow:20.",
                            crate::git::short(script)
                        )))
                    } else {
                        Err(Error::BadInput(format!(
                            "The demo agent has no script “{}”. It has: {}.",
                            crate::git::short(script),
                            DEMO_SCRIPTS.join(", ")
                        )))
                    }
                }
            },
            "claude" => match (&self.claude, script) {
                (_, Some(_)) => Err(Error::BadInput("Scripts are for the demo agent only.".into())),
                (None, None) => Err(Error::BadInput(
                    "Claude Code is not set up here. Start the server with OPKIT_CLAUDE=/path/to/claude and put an \
                     API key into the data directory, file keys/anthropic (mode 0600)."
                        .into(),
                )),
                (Some(_), None) => Ok(()),
            },
            other => Err(Error::BadInput(format!(
                "There is no agent “{}”. Use demo or claude.",
                crate::git::short(other)
            ))),
        }
    }

    /// The agent's command line.
    pub(crate) fn spec(&self, name: &str, start: &Start<'_>) -> Result<AgentSpec> {
        match name {
            "claude" => {
                let program = self.claude.as_deref().ok_or_else(|| {
                    Error::Refused(
                        "Claude Code is not set up here. Start the server with OPKIT_CLAUDE.".into(),
                    )
                })?;
                readable(program, start.identity)?;
                Ok(claude(program, start))
            }
            _ => Ok(demo(start)),
        }
    }
}

fn demo(start: &Start<'_>) -> AgentSpec {
    let script = start.script.unwrap_or("good");
    let reviewer = matches!(script, "review-errors" | "wrong-nonce" | "prose" | "reviewer-crashes");
    // A reviewer's script leaves the worker alone, and the other way round.
    let script = match start.role {
        Role::Review if !reviewer => "good",
        Role::Plan | Role::Work | Role::Delegate if reviewer => "good",
        Role::Plan | Role::Work | Role::Review | Role::Delegate => script,
    };
    let role = if start.role == Role::Review { "review" } else { "work" };
    AgentSpec {
        name: "demo".into(),
        argv: vec![
            start.runner.to_string_lossy().into_owned(),
            "demo-agent".into(),
            "--role".into(),
            role.into(),
            "--script".into(),
            script.into(),
        ],
        format: OutputFormat::ClaudeStreamJson,
        polite_signal: 2,
    }
}

/// What `opkit-session probe` tries: Claude Code exactly as sessions start it.
pub(crate) fn claude_probe(program: &Path, mode: WallMode) -> Result<AgentProbe> {
    let session = SessionId::from_str(&uuid::Uuid::new_v4().to_string())
        .map_err(|error| Error::Refused(format!("No session id could be made: {error}")))?;
    let (runner, settings) = (Path::new("opkit-session"), Path::new("settings.json"));
    let start = Start { role: Role::Work, session: &session, script: None, runner, settings, identity: None };
    let real = program.canonicalize().ok();
    let dirs = [Some(program), real.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Ok(AgentProbe {
        argv: claude(program, &start).argv,
        settings: claude_settings(runner, Path::new("policy.json")).to_string(),
        env: [("PATH", crate::programs::PATH)].into_iter().chain(CLAUDE_ENV).map(own).collect(),
        mode,
        read: SYSTEM_READS.iter().map(PathBuf::from).chain(dirs.map(Path::to_owned)).collect(),
    })
}

/// Claude Code headless with everything pinned that a repository or the agent itself could change.
fn claude(program: &Path, start: &Start<'_>) -> AgentSpec {
    let tools = match start.role {
        Role::Review | Role::Plan | Role::Work | Role::Delegate => "Bash,Edit,Read,Write,Glob,Grep",
    };
    let (program, settings) = (program.to_string_lossy(), start.settings.to_string_lossy());
    let argv = [
        program.as_ref(),
        "-p",
        "--setting-sources",
        "",
        "--settings",
        settings.as_ref(),
        "--strict-mcp-config",
        "--tools",
        tools,
        "--permission-mode",
        "dontAsk",
        "--session-id",
        start.session.as_str(),
        "--max-turns",
        "150",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-hook-events",
    ];
    AgentSpec {
        name: "claude".into(),
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        format: OutputFormat::ClaudeStreamJson,
        polite_signal: 2,
    }
}

/// `settings.json` of a Claude session: the guard on every tool, and the pins.
pub(crate) fn claude_settings(runner: &Path, policy: &Path) -> serde_json::Value {
    let hook = |mode: &str| {
        // Claude runs hooks through a shell: both paths are quoted, and both are ours.
        let command = format!("{} guard{mode} {}", quoted(runner), quoted(policy));
        serde_json::json!([{ "matcher": "*", "hooks": [{ "type": "command", "command": command, "timeout": 20 }] }])
    };
    serde_json::json!({
        "disableAllHooks": false,
        "env": { "CLAUDE_CODE_SIMPLE": "0", "CLAUDE_CODE_SAFE_MODE": "0" },
        "hooks": {
            "PreToolUse": hook(""),
            "PostToolUse": hook(" --post"),
            "PostToolUseFailure": hook(" --post"),
        },
    })
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

/// Refuses a program that the agents' user cannot read and run, naming the first closed place.
pub(crate) fn readable(program: &Path, identity: Option<&Identity>) -> Result<()> {
    let real = program.canonicalize().map_err(|error| {
        Error::Refused(format!("The agent's program {} cannot be found: {error}.", program.display()))
    })?;
    let Some(identity) = identity else { return Ok(()) };
    let mut so_far = PathBuf::new();
    for part in real.components() {
        so_far.push(part);
        let meta = std::fs::metadata(&so_far)?;
        let wanted = if meta.is_dir() { 0o1 } else { 0o5 };
        if !crate::data_dir::may(&meta, identity, wanted) {
            return Err(Error::Refused(format!(
                "Agents run as another user, which cannot get to {} because of {}. Install the agent where every \
                 user can read it, for example below /opt, or run: chmod o+rx {}",
                real.display(),
                so_far.display(),
                so_far.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn the_probe_tries_the_command_line_of_sessions() {
        let probe = claude_probe(Path::new("/opt/claude"), WallMode::Enforced).unwrap();
        assert!(probe.read.contains(&PathBuf::from("/opt")));
        assert!(probe.argv.windows(2).any(|pair| pair == ["--permission-mode", "dontAsk"]));
        assert!(probe.argv.iter().any(|arg| arg == "--settings") && probe.settings.contains("PreToolUse"));
    }
}
