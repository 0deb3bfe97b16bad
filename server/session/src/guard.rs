//! The hook before and after each of the agent's tool calls. The kernel is the wall; the guard is manners.

mod git;
mod operator;
mod outline;
mod runners;
mod sed;
mod shell;
mod words;
mod writers;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::panic;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use opkit_domain::session::{GuardPolicy, WallMode};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The guard's answer to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Allow,
    /// The call must not run; the sentence is for the agent.
    Deny(String),
}

impl Decision {
    /// The JSON that the agent's CLI reads.
    pub fn to_json(&self) -> String {
        let (word, reason) = match self {
            Decision::Allow => ("allow", "inside the session's places"),
            Decision::Deny(reason) => ("deny", reason.as_str()),
        };
        serde_json::json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": word,
            "permissionDecisionReason": reason,
        }})
        .to_string()
    }
}

/// One tool call, as far as the guard looks at it.
#[derive(Debug, Clone, Default)]
pub struct Call<'a> {
    /// "Write", "Bash", ...
    pub tool: &'a str,
    /// The file a write tool names.
    pub path: Option<&'a str>,
    /// The command line of a shell tool.
    pub command: Option<&'a str>,
    /// The directory that relative paths start from.
    pub cwd: Option<&'a Path>,
}

/// How a tool is judged.
enum Kind {
    /// Names one file that it writes.
    Writes,
    /// Runs a command line.
    Shell,
    /// Writes nothing, or only what the kernel judges.
    Kernel,
    Unknown,
}

fn kind(tool: &str) -> Kind {
    match tool {
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Kind::Writes,
        "Bash" => Kind::Shell,
        "Read" | "Glob" | "Grep" | "BashOutput" | "KillShell" | "TodoWrite" => Kind::Kernel,
        _ => Kind::Unknown,
    }
}

/// Decides one call by the canonical path of what it writes.
pub fn decide(policy: &GuardPolicy, call: &Call<'_>) -> Decision {
    if !policy.tools.iter().any(|tool| tool == call.tool) {
        let tools = policy.tools.join(", ");
        return Decision::Deny(format!(
            "BLOCKED: the tool '{}' is not part of this session. Allowed: {tools}.",
            call.tool
        ));
    }
    match kind(call.tool) {
        Kind::Kernel => Decision::Allow,
        Kind::Shell => decide_command(policy, call),
        Kind::Unknown => {
            Decision::Deny(format!("BLOCKED: the guard does not know the tool '{}'.", call.tool))
        }
        Kind::Writes => match call.path {
            None => Decision::Deny(format!("BLOCKED: {} without a file path.", call.tool)),
            Some(path) => decide_write(policy, path, call.cwd.unwrap_or(&policy.worktree)),
        },
    }
}

/// The same, and what the guard allows goes to the operator's own hooks, which can only deny. `json` is the call
/// as they read it.
pub fn decide_with_operator(policy: &GuardPolicy, call: &Call<'_>, json: &[u8]) -> Decision {
    match decide(policy, call) {
        Decision::Allow => {
            operator::objection(&policy.operator_hooks, json).map_or(Decision::Allow, Decision::Deny)
        }
        Decision::Deny(reason) => Decision::Deny(reason),
    }
}

/// Denies a command that clearly writes outside. The rest is the kernel's, unless there is no wall.
fn decide_command(policy: &GuardPolicy, call: &Call<'_>) -> Decision {
    let cwd = call.cwd.unwrap_or(&policy.worktree);
    let is_outside = |path: &Path| !resolve(path).is_ok_and(|real| is_inside(policy, &real));
    let unclear = shell::Finding { outside: None, unclear: true };
    let finding = match call.command {
        // A grammar that panics has understood nothing; that is no failure of the guard.
        Some(command) => panic::catch_unwind(|| shell::judge(command, cwd, &is_outside)).unwrap_or(unclear),
        None => unclear,
    };
    match finding.outside {
        Some(path) => Decision::Deny(refusal(policy, cwd, &path)),
        None if finding.unclear && policy.mode == WallMode::HookOnly => Decision::Deny(format!(
            "BLOCKED: it is not clear where this command writes, and this session has no kernel wall. Name \
             the paths in full, without variables or scripts inside scripts. {}",
            allowed(policy)
        )),
        None => Decision::Allow,
    }
}

fn refusal(policy: &GuardPolicy, cwd: &Path, path: &str) -> String {
    let place = match resolve(&cwd.join(path)) {
        Ok(real) if !writes_worktree(policy) && real.starts_with(&policy.worktree) => "in the worktree",
        Ok(_) | Err(_) => "outside worktree",
    };
    format!("BLOCKED: write to '{path}' {place}. {}", allowed(policy))
}

fn decide_write(policy: &GuardPolicy, path: &str, cwd: &Path) -> Decision {
    let denied = || Decision::Deny(refusal(policy, cwd, path));
    // A tilde is expanded by some tools and not by others: whichever it is, it is not the worktree.
    if path.is_empty() || path.starts_with('~') || path.contains('\0') {
        return denied();
    }
    match resolve(&cwd.join(path)) {
        Ok(real) if is_inside(policy, &real) => Decision::Allow,
        Ok(_) | Err(_) => denied(),
    }
}

fn allowed(policy: &GuardPolicy) -> String {
    let others: Vec<String> = policy
        .write
        .iter()
        .filter(|root| **root != policy.worktree)
        .map(|root| root.display().to_string())
        .collect();
    let worktree = policy.worktree.display();
    match others.as_slice() {
        [] if !writes_worktree(policy) => {
            "This session reads the worktree and does not write in it.".to_owned()
        }
        others if !writes_worktree(policy) => {
            let places = others.join(", ");
            format!("This session reads the worktree and does not write in it. Write below: {places}.")
        }
        [] => format!("Write below the worktree {worktree}."),
        others => format!("Write below the worktree {worktree}, or below: {}.", others.join(", ")),
    }
}

/// Sessions that plan or delegate only read it.
fn writes_worktree(policy: &GuardPolicy) -> bool {
    is_inside(policy, &policy.worktree)
}

fn is_inside(policy: &GuardPolicy, real: &Path) -> bool {
    // Every path starts with an empty one, so an empty or relative root must never count.
    policy
        .write
        .iter()
        .any(|root| root.is_absolute() && root.components().count() > 1 && real.starts_with(root))
}

/// Follows every link of `path`, of which the end need not exist yet.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut left: Vec<OsString> = parts(path);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        let target = match fs::symlink_metadata(&real) {
            Ok(meta) if meta.is_symlink() => fs::read_link(&real)?,
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        links += 1;
        if links > 40 {
            return Err(io::Error::other("too many links"));
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        left.extend(parts(&target));
    }
    Ok(real)
}

/// The path's names, last first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

#[derive(Deserialize)]
struct HookInput<'a> {
    #[serde(borrow)]
    tool_name: Cow<'a, str>,
    #[serde(borrow)]
    tool_input: ToolInput<'a>,
    cwd: Option<PathBuf>,
    #[serde(borrow, default)]
    tool_response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolInput<'a> {
    #[serde(borrow, default)]
    file_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    notebook_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
}

/// Reads a policy file.
pub fn read_policy(path: &Path) -> anyhow::Result<GuardPolicy> {
    let text = fs::read(path).with_context(|| format!("the policy {} cannot be read", path.display()))?;
    serde_json::from_slice(&text).context("the policy is not valid")
}

/// The `guard` subcommand. Every failure, a panic too, leaves with status 2, which blocks the call.
pub(crate) fn main(args: &[&str]) -> ExitCode {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let answer = panic::catch_unwind(|| answer(&args));
    let sentence = match answer {
        Ok(Ok(None)) => return ExitCode::SUCCESS,
        Ok(Ok(Some(sentence))) => sentence,
        Ok(Err(error)) => format!("BLOCKED: the guard failed: {error:#}"),
        Err(_) => "BLOCKED: the guard failed.".to_owned(),
    };
    eprintln!("{sentence}");
    ExitCode::from(2)
}

/// None: answered on standard output (or nothing to say). Some: a sentence for the agent, with status 2.
fn answer(args: &[String]) -> anyhow::Result<Option<String>> {
    // Read to its end before anything can fail: a caller that writes to a closed pipe may fail open.
    let mut text = Vec::new();
    io::stdin().take(64 << 20).read_to_end(&mut text)?;
    let post = args.first().is_some_and(|arg| arg == "--post");
    let policy_path = match args.get(usize::from(post)) {
        Some(path) => PathBuf::from(path),
        None => std::env::var_os("OPKIT_POLICY").context("OPKIT_POLICY names no policy")?.into(),
    };
    let policy = read_policy(&policy_path)?;
    let input: HookInput<'_> = serde_json::from_slice(&text).context("the call is not valid JSON")?;
    if post {
        return Ok(explain(&policy, &input));
    }
    let path = input.tool_input.file_path.as_deref().or(input.tool_input.notebook_path.as_deref());
    if let Some(cwd) = &input.cwd
        && !cwd.is_absolute()
    {
        bail!("the working directory of the call is not absolute");
    }
    let call = Call {
        tool: &input.tool_name,
        path,
        command: input.tool_input.command.as_deref(),
        cwd: input.cwd.as_deref(),
    };
    let decision = decide_with_operator(&policy, &call, &text);
    println!("{}", decision.to_json());
    Ok(None)
}

/// A refusal by the kernel, in words: which path, and where writing is allowed.
fn explain(policy: &GuardPolicy, input: &HookInput<'_>) -> Option<String> {
    // What another tool answers when it succeeds is the content of files, and they may speak of refusals.
    if input.error.is_none() && !matches!(kind(&input.tool_name), Kind::Shell) {
        return None;
    }
    let cwd = input.cwd.clone().unwrap_or_else(|| policy.worktree.clone());
    let texts = [input.error, input.tool_response];
    let path = texts.into_iter().flatten().find_map(|raw| {
        let value: serde_json::Value = serde_json::from_str(raw.get()).ok()?;
        refused_path(policy, &cwd, &value)
    })?;
    Some(format!("The wall refused '{path}': it is outside this session's places. {}", allowed(policy)))
}

fn refused_path(policy: &GuardPolicy, cwd: &Path, value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => text.lines().find_map(|line| refused_path_in(policy, cwd, line)),
        serde_json::Value::Array(items) => items.iter().find_map(|item| refused_path(policy, cwd, item)),
        serde_json::Value::Object(map) => map.values().find_map(|item| refused_path(policy, cwd, item)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => None,
    }
}

/// The path nearest before the refusal ("sh: line 1: PATH: Permission denied"), else one after it.
fn refused_path_in(policy: &GuardPolicy, cwd: &Path, line: &str) -> Option<String> {
    // The last two: what Landlock answers to a link or a rename across its border.
    let refusals = [
        "Permission denied",
        "Operation not permitted",
        "permission denied",
        "EACCES",
        "EPERM",
        "Invalid cross-device link",
        "EXDEV",
    ];
    let at = refusals.iter().find_map(|refusal| line.find(refusal))?;
    let outside = |word: &&str| {
        let is_path = word.starts_with('/') || word.starts_with("../") || word.starts_with("./");
        is_path && !resolve(&cwd.join(word)).is_ok_and(|real| is_inside(policy, &real))
    };
    let words = |text| str::split(text, |c: char| c.is_whitespace() || "'\"`‘’“”:;,()[]<>".contains(c));
    let before: Vec<&str> = words(&line[..at]).filter(outside).collect();
    before.last().copied().or_else(|| words(&line[at..]).find(outside)).map(str::to_owned)
}

#[cfg(test)]
#[path = "guard/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "guard/shell_tests.rs"]
mod shell_tests;
