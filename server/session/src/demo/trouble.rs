//! The demo agent in trouble: every way a session can end badly, and the ways out of its places it must not find.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;

use super::Ending;
use super::brief::Brief;
use super::speech::Speech;

const BLOCKED: &str = "The demo script says so: it lacks a credential for the staging server";
/// Lines in one tool result of a flood.
const LINES_PER_EVENT: u64 = 800;

/// Asks for a person through the session door.
pub(super) fn blocked(speech: &mut Speech) -> Ending {
    let id = speech.open_call(&format!("opkit-session blocked \"{BLOCKED}\""))?;
    let answer = crate::call::post("blocked", &json!({"reason": BLOCKED}));
    if let Some(id) = id {
        match &answer {
            Ok(text) => speech.answer(&id, text, false)?,
            Err(error) => speech.answer(&id, &format!("{error:#}"), true)?,
        }
    }
    speech.finish(BLOCKED)
}

/// Does nothing for ever; leaves politely on SIGINT, as the real CLI does.
pub(super) fn hangs(speech: &mut Speech) -> Ending {
    let (mut wait, wake) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGINT, wake)?;
    speech.say("I begin to think about this.")?;
    speech.run(&["git", "status", "--short"])?;
    speech.say("I go on thinking, and this script never ends by itself.")?;
    wait.read_exact(&mut [0])?;
    speech.event(
        json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 2,
        "total_cost_usd": 0, "terminal_reason": "aborted_tools", "result": "Interrupted"}),
    )?;
    Ok(ExitCode::FAILURE)
}

/// Works a little and aborts.
pub(super) fn crashes(speech: &mut Speech) -> Ending {
    speech.say("I look around, and then this script crashes.")?;
    speech.run(&["git", "log", "--oneline", "-n", "3"])?;
    std::process::abort();
}

/// Numbered lines as fast as they can be written.
pub(super) fn floods(speech: &mut Speech, megabytes: u64) -> anyhow::Result<()> {
    speech.say(&format!("I print {megabytes} MB of numbered lines."))?;
    flood(speech, megabytes << 20, None)
}

/// Numbered lines at about 1 MB/s.
pub(super) fn floods_slowly(speech: &mut Speech, seconds: u64) -> anyhow::Result<()> {
    speech.say(&format!("I print numbered lines for {seconds} s."))?;
    flood(speech, seconds << 20, Some(1 << 20))
}

fn flood(speech: &mut Speech, bytes: u64, bytes_per_s: Option<u64>) -> anyhow::Result<()> {
    let Some(id) = speech.open_call("print-lines")? else { return Ok(()) };
    let start = Instant::now();
    let mut out = std::io::stdout().lock();
    let mut event = String::new();
    let (mut printed, mut line) = (0, 0);
    while printed < bytes {
        event.clear();
        event.push_str(
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":""#,
        );
        event.push_str(&id);
        event.push_str(r#"","content":""#);
        let before = event.len();
        for _ in 0..LINES_PER_EVENT {
            line += 1;
            // Written as JSON by hand: nothing here needs escaping but the line break.
            write!(event, "line {line} of a flood, long enough to look like the output of a build\\n")?;
        }
        printed += (event.len() - before) as u64;
        event.push_str("\"}]}}\n");
        out.write_all(event.as_bytes())?;
        if let Some(rate) = bytes_per_s {
            let due = Duration::from_millis(printed * 1000 / rate);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    Ok(())
}

/// Whether this objective met the limit before: then another account does the work. Leaves a mark in scratch.
pub(super) fn limited_before() -> std::io::Result<bool> {
    let mark = std::env::temp_dir().join("demo-usage-limit-met");
    match std::fs::OpenOptions::new().write(true).create_new(true).open(mark) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(true),
        Err(error) => Err(error),
    }
}

/// The provider's refusal, as the real CLI tells it: the limit ends in so many seconds.
pub(super) fn usage_limit(speech: &mut Speech, seconds: u64) -> Ending {
    let reset = crate::files::now_ms() / 1000 + i64::try_from(seconds)?;
    let text = "You've hit your limit · resets soon (demo)";
    speech.event(
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset,
        "rateLimitType": "five_hour", "overageStatus": "rejected", "isUsingOverage": false}}),
    )?;
    speech.event(json!({"type": "assistant", "message": {"model": "<synthetic>", "role": "assistant",
        "content": [{"type": "text", "text": text}]}, "error": "rate_limit", "parent_tool_use_id": null}))?;
    speech
        .event(json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
        "num_turns": 1, "total_cost_usd": 0, "result": text}))?;
    Ok(ExitCode::FAILURE)
}

/// Prints a line a second, then works.
pub(super) fn takes_time(speech: &mut Speech, seconds: u64) -> anyhow::Result<()> {
    speech.say(&format!("I take {seconds} s before I begin."))?;
    for second in 1..=seconds {
        std::thread::sleep(Duration::from_secs(1));
        if let Some(id) = speech.open_call(&format!("wait {second} of {seconds}"))? {
            speech.answer(&id, &format!("{second} s of {seconds} s"), false)?;
        }
    }
    Ok(())
}

/// What stands in the artifact's place.
#[derive(Clone, Copy)]
pub(super) enum Fake {
    /// A link to a file outside.
    Link,
    /// A pipe that nobody writes to.
    Pipe,
}

/// Works well, then puts something that is no file in its artifact's place.
pub(super) fn replaces_artifact(speech: &mut Speech, brief: &Brief, fake: Fake) -> Ending {
    let memory = std::env::var_os("OPKIT_MEMORY").map(PathBuf::from).context("OPKIT_MEMORY is not set")?;
    let artifact = memory.join("ARTIFACT.md");
    // What an earlier round left would be followed, or waited for.
    let _ = std::fs::remove_file(&artifact);
    let ending = super::work::good(speech, brief)?;
    std::fs::remove_file(&artifact)?;
    match fake {
        Fake::Link => std::os::unix::fs::symlink("/etc/passwd", &artifact)?,
        Fake::Pipe => {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &artifact, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
    }
    Ok(ending)
}

/// Tries to write where it must not, by the tool and by the shell, and shows each refusal.
pub(super) fn writes_outside(speech: &mut Speech, brief: &Brief) -> anyhow::Result<()> {
    speech.say("First this script tries to write outside its own places. Each try must be refused.")?;
    let mut escaped = Vec::new();
    for path in forbidden(speech, brief) {
        let was_there = path.exists();
        speech.write(&path, "escaped\n")?;
        // The shell gets the path as an argument, never inside the script.
        speech.run(&["/bin/sh", "-c", "echo escaped > \"$1\"", "sh", &path.to_string_lossy()])?;
        let content = std::fs::read_to_string(&path).unwrap_or_default();
        if !was_there && path.exists() || content == "escaped\n" {
            escaped.push(path.display().to_string());
        }
    }
    if escaped.is_empty() {
        speech.say("Every try was refused. Now the work itself.")
    } else {
        speech.say(&format!("ESCAPED: these were written: {}", escaped.join(", ")))
    }
}

fn forbidden(speech: &Speech, brief: &Brief) -> Vec<PathBuf> {
    let id = brief.objective;
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut paths = vec![PathBuf::from(format!("/tmp/opkit-escape-{id}"))];
    paths.extend(var("HOME").map(|home| home.join("../../escape")));
    // The checkout borrows its objects from the mirror, so it knows where that is.
    let alternates = std::fs::read_to_string(speech.cwd().join(".git/objects/info/alternates"));
    if let Some(mirror) =
        alternates.ok().and_then(|text| Path::new(text.lines().next()?).parent().map(Path::to_owned))
    {
        paths.push(mirror.join("escape"));
    }
    let worktree = var("OPKIT_WORKTREE").unwrap_or_else(|| speech.cwd().to_owned());
    let sibling = id + if id > 1 { -1 } else { 1 };
    paths.push(worktree.join(format!("../../{sibling}/cc-worktree-{sibling}/escape")));
    if let Some(data) = var("OPKIT_DOOR_FILE").and_then(|door| Some(door.parent()?.parent()?.to_owned())) {
        paths.push(data.join("DISABLED"));
    }
    paths
}
