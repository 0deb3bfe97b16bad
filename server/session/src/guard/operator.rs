//! The operator's own hooks: asked when the guard has allowed a call. Each can deny it, none can allow one.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::Deserialize;

/// How long one hook may think.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all of them may: the agent's CLI gives the guard 20 seconds, and a guard that is late is broken.
const ALL_PATIENCE: Duration = Duration::from_secs(15);
/// A hook's answer is read up to here.
const ANSWER_BYTES: u64 = 64 << 10;

/// Asks every hook in order, with the call on its standard input; the first objection, if any.
pub(super) fn objection(hooks: &[Vec<String>], call: &[u8]) -> Option<String> {
    let deadline = Instant::now() + ALL_PATIENCE;
    hooks.iter().find_map(|hook| {
        let name = hook.first().map_or("(no program)", String::as_str);
        match ask(hook, call, deadline) {
            Ok(None) => None,
            Ok(Some(reason)) if reason.trim().is_empty() => {
                Some(format!("BLOCKED: the operator's hook {name} denied this call."))
            }
            Ok(Some(reason)) => Some(format!("BLOCKED by the operator's hook {name}: {}", reason.trim())),
            Err(error) => Some(format!(
                "BLOCKED: the operator's hook {name} failed: {error:#}. A hook that fails denies the call."
            )),
        }
    })
}

fn ask(hook: &[String], call: &[u8], deadline: Instant) -> anyhow::Result<Option<String>> {
    let Some((program, args)) = hook.split_first() else { bail!("it names no program") };
    if !Path::new(program).is_absolute() {
        bail!("it is not an absolute path");
    }
    // Files, not pipes: neither side can make the other wait, and what the hook leaves behind holds nothing open.
    let mut input = memory("call")?;
    input.write_all(call)?;
    input.rewind()?;
    let (output, errors) = (memory("answer")?, memory("errors")?);
    let mut command = Command::new(program);
    command.args(args).stdin(input).stdout(output.try_clone()?).stderr(errors.try_clone()?).process_group(0);
    let mut child = command.spawn().context("it cannot be started")?;
    let status = wait(&mut child, deadline.min(Instant::now() + PATIENCE))?;
    match status.and_then(|status| status.code()) {
        None if status.is_none() => bail!("it did not answer within {} s", PATIENCE.as_secs()),
        Some(2) => Ok(Some(text(errors)?)),
        Some(0) => read(&text(output)?),
        Some(code) => bail!("it left with status {code}"),
        None => bail!("it was ended by a signal"),
    }
}

fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

/// None: it is over time, and ended with what it started.
fn wait(child: &mut Child, deadline: Instant) -> anyhow::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("it has no process id")?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec { tv_sec: i64::try_from(left.as_secs())?, tv_nsec: i64::from(left.subsec_nanos()) };
    let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left));
    if ended == Ok(0) || ended.is_err() {
        // It may have ended in this very moment.
        let _ = kill_process_group(pid, Signal::KILL);
        child.wait()?;
        return Ok(None);
    }
    Ok(Some(child.wait()?))
}

fn text(mut file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(ANSWER_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    decision: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(rename = "continue", default)]
    go_on: Option<bool>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    hook_specific_output: Option<Specific>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specific {
    #[serde(default)]
    permission_decision: Option<String>,
    #[serde(default)]
    permission_decision_reason: Option<String>,
}

/// Reads what a hook printed. Only JSON can object; there is nobody to ask, so "ask" is an objection too.
fn read(output: &str) -> anyhow::Result<Option<String>> {
    if !output.trim_start().starts_with('{') {
        return Ok(None);
    }
    let answer: Answer = serde_json::from_str(output).context("its answer is not valid JSON")?;
    if let Some(Specific { permission_decision: Some(word), permission_decision_reason: reason }) =
        answer.hook_specific_output
        && word != "allow"
    {
        return Ok(Some(reason.unwrap_or_default()));
    }
    if answer.decision.is_some_and(|word| word != "approve" && word != "allow") {
        return Ok(Some(answer.reason.unwrap_or_default()));
    }
    Ok((answer.go_on == Some(false)).then(|| answer.stop_reason.or(answer.reason).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_objection_counts() {
        let table = [
            ("", None),
            ("all is well", None),
            ("{}", None),
            (r#"{"hookSpecificOutput":{"permissionDecision":"allow"}}"#, None),
            (r#"{"decision":"approve"}"#, None),
            (
                r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}"#,
                Some("no"),
            ),
            (r#"{"hookSpecificOutput":{"permissionDecision":"ask"}}"#, Some("")),
            (r#"{"decision":"block","reason":"never"}"#, Some("never")),
            (r#"{"continue":false,"stopReason":"enough"}"#, Some("enough")),
        ];
        for (output, expected) in table {
            assert_eq!(read(output).expect("it is read").as_deref(), expected, "{output}");
        }
        assert!(read("{").is_err());
    }

    #[test]
    fn failures_and_silence_deny() {
        let hook = |script: &str| vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let call = br#"{"tool_name":"Bash"}"#;
        let ask = |hooks: &[Vec<String>]| objection(hooks, call).unwrap_or_default();
        assert_eq!(ask(&[hook("grep -q Bash"), hook("exit 0")]), "");
        assert!(ask(&[hook("exit 0"), hook("echo not today >&2; exit 2")]).ends_with(": not today"));
        assert!(ask(&[hook("exit 1")]).contains("status 1"));
        assert!(ask(&[hook("kill -9 $$")]).contains("signal"));
        assert!(ask(&[vec!["/no/such/hook".to_owned()]]).contains("cannot be started"));
        assert!(ask(&[vec!["sh".to_owned()]]).contains("not an absolute path"));
        assert!(ask(&[vec![]]).contains("no program"));
    }

    #[test]
    fn a_hook_that_does_not_answer_is_ended() {
        let hook = ["/bin/sh", "-c", "sleep 100000"].map(str::to_owned).to_vec();
        let start = Instant::now();
        let late = ask(&hook, b"{}", Instant::now() + Duration::from_millis(200)).expect_err("it is late");
        assert!(late.to_string().contains("did not answer"), "{late:#}");
        assert!(start.elapsed() < Duration::from_secs(60), "it waits for the hook");
    }
}
