//! The demo agent's mouth and hands: stream-json like Claude Code's, and tools that really do what they say.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use opkit_domain::session::{GuardPolicy, WallMode};
use serde_json::{Value, json};

use crate::guard::{self, Call, Decision};

/// Output of a command that is kept.
const OUTPUT_BYTES: usize = 256 << 10;
/// A command of the demo agent may take this long.
const COMMAND_PATIENCE: Duration = Duration::from_secs(120);

/// How a tool call ended.
pub(super) struct Done {
    pub(super) ok: bool,
    pub(super) output: String,
}

/// Speaks and acts for the demo agent.
pub(super) struct Speech {
    session: String,
    cwd: PathBuf,
    policy: Option<GuardPolicy>,
    pauses: bool,
    calls: u32,
}

impl Speech {
    /// Says the init event.
    /// `began_us` is the time of its first instruction, which the bench reads.
    pub(super) fn begin(began_us: i64) -> anyhow::Result<Speech> {
        let policy = match std::env::var_os("OPKIT_POLICY") {
            Some(path) => Some(guard::read_policy(Path::new(&path))?),
            None => None,
        };
        let mut speech = Speech {
            session: std::env::var("OPKIT_SESSION").unwrap_or_default(),
            cwd: std::env::current_dir().context("no working directory")?,
            policy,
            pauses: std::env::var("OPKIT_DEMO_SPEED").as_deref() != Ok("0"),
            calls: 0,
        };
        let cwd = speech.cwd.clone();
        speech.event(json!({
            "type": "system", "subtype": "init", "agent": "demo agent", "model": "demo", "cwd": cwd,
            "tools": ["Bash", "Edit", "Read", "Write"], "permissionMode": "dontAsk",
            "began_us": began_us,
        }))?;
        Ok(speech)
    }

    /// The agent's working directory.
    pub(super) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Writes one line; the session id is added to each.
    pub(super) fn event(&mut self, mut event: Value) -> anyhow::Result<()> {
        if !self.session.is_empty() {
            event["session_id"] = json!(self.session);
        }
        let mut out = io::stdout().lock();
        // `type` goes first, as the real CLI has it; serde_json would sort it.
        let kind = event["type"].take();
        if let Some(map) = event.as_object_mut() {
            map.remove("type");
        }
        let rest = event.to_string();
        writeln!(out, "{{\"type\":{kind},{}", &rest[1..])?;
        out.flush()?;
        Ok(())
    }

    /// A pause, so that people can follow: 150 to 400 ms.
    pub(super) fn pause(&self) {
        if self.pauses {
            let spread = u64::from(self.calls.wrapping_mul(2_654_435_761) >> 24);
            std::thread::sleep(Duration::from_millis(150 + spread.min(250)));
        }
    }

    /// Says something.
    pub(super) fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.calls += 1;
        self.pause();
        self.event(json!({"type": "assistant", "message": {"model": "demo", "role": "assistant",
            "content": [{"type": "text", "text": text}]}, "parent_tool_use_id": null}))
    }

    /// Announces a call; the guard's answer follows as the real CLI reports it. None: denied, and said so.
    fn call(
        &mut self,
        tool: &str,
        input: Value,
        path: Option<&str>,
    ) -> anyhow::Result<Result<String, String>> {
        self.calls += 1;
        self.pause();
        let id = format!("toolu_demo_{}", self.calls);
        self.event(json!({"type": "assistant", "message": {"model": "demo", "role": "assistant",
            "content": [{"type": "tool_use", "id": id, "name": tool, "input": &input}]}, "parent_tool_use_id": null}))?;
        let Some(policy) = &self.policy else { return Ok(Ok(id)) };
        // Behind a wall without its command line: the scripts that break out shall meet the kernel, not the grammar.
        let command = input["command"].as_str().filter(|_| policy.mode == WallMode::HookOnly);
        let call = Call { tool, path, command, cwd: Some(&self.cwd) };
        let as_json = json!({"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "cwd": self.cwd,
            "tool_use_id": id});
        let decision = guard::decide_with_operator(policy, &call, as_json.to_string().as_bytes());
        self.event(
            json!({"type": "system", "subtype": "hook_response", "hook_name": format!("PreToolUse:{tool}"),
            "hook_event": "PreToolUse", "stdout": decision.to_json(), "stderr": "", "exit_code": 0,
            "outcome": "success"}),
        )?;
        match decision {
            Decision::Allow => Ok(Ok(id)),
            Decision::Deny(reason) => {
                self.answer(&id, &reason, true)?;
                Ok(Err(reason))
            }
        }
    }

    /// A tool's result.
    pub(super) fn answer(&mut self, id: &str, text: &str, is_error: bool) -> anyhow::Result<()> {
        let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": text});
        if is_error {
            block["is_error"] = json!(true);
        }
        self.event(json!({"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": null}))
    }

    /// Writes a file (with the directories above it) by the Write tool.
    pub(super) fn write(&mut self, path: &Path, content: &str) -> anyhow::Result<Done> {
        let name = path.to_string_lossy().into_owned();
        let input = json!({"file_path": self.cwd.join(path), "content": content});
        let id = match self.call("Write", input, Some(&name))? {
            Ok(id) => id,
            Err(output) => return Ok(Done { ok: false, output }),
        };
        let path = self.cwd.join(path);
        let result =
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
        self.settle(&id, &path, result, "File created successfully at")
    }

    /// Adds lines at the end of a file by the Edit tool.
    pub(super) fn append(&mut self, path: &Path, lines: &str) -> anyhow::Result<Done> {
        let full = self.cwd.join(path);
        let old = match fs::read_to_string(&full) {
            Ok(old) => old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.write(path, lines),
            Err(error) => return Ok(Done { ok: false, output: error.to_string() }),
        };
        let last = old.lines().last().unwrap_or("");
        let input = json!({"file_path": full, "old_string": last, "new_string": format!("{last}\n{}", lines.trim_end())});
        let id = match self.call("Edit", input, Some(&path.to_string_lossy()))? {
            Ok(id) => id,
            Err(output) => return Ok(Done { ok: false, output }),
        };
        let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
        let result = fs::write(&full, format!("{old}{gap}{lines}"));
        self.settle(&id, &full, result, "The file has been updated:")
    }

    fn settle(&mut self, id: &str, path: &Path, result: io::Result<()>, said: &str) -> anyhow::Result<Done> {
        let (ok, output) = match result {
            Ok(()) => (true, format!("{said} {}", path.display())),
            Err(error) => (false, format!("{}: {error}", path.display())),
        };
        self.answer(id, &output, !ok)?;
        Ok(Done { ok, output })
    }

    /// Reads a file by the Read tool; none when it is not there.
    pub(super) fn read(&mut self, path: &Path) -> anyhow::Result<Option<String>> {
        let full = self.cwd.join(path);
        let Ok(id) = self.call("Read", json!({"file_path": full}), None)? else { return Ok(None) };
        match fs::read_to_string(&full) {
            Ok(text) => {
                self.answer(&id, &text, false)?;
                Ok(Some(text))
            }
            Err(error) => {
                self.answer(&id, &format!("{}: {error}", full.display()), true)?;
                Ok(None)
            }
        }
    }

    /// Runs a shell line by the Bash tool, as a model would.
    pub(super) fn shell(&mut self, line: &str) -> anyhow::Result<Done> {
        self.run_as(line, &["/bin/sh", "-c", line])
    }

    /// Runs an argument array; shown as its words.
    pub(super) fn run(&mut self, argv: &[&str]) -> anyhow::Result<Done> {
        self.run_as(&argv.join(" "), argv)
    }

    fn run_as(&mut self, shown: &str, argv: &[&str]) -> anyhow::Result<Done> {
        let id = match self.call("Bash", json!({"command": shown}), None)? {
            Ok(id) => id,
            Err(output) => return Ok(Done { ok: false, output }),
        };
        let (ok, output) = match run_to_file(argv, &self.cwd) {
            Err(error) => (false, format!("{}: {error}", argv[0])),
            Ok((status, mut text)) => {
                text.truncate(text.floor_char_boundary(OUTPUT_BYTES));
                match status {
                    Some(status) if status.success() => (true, text),
                    Some(status) => (false, format!("{}{text}", said_status(status))),
                    None => (false, format!("took longer than {} s\n{text}", COMMAND_PATIENCE.as_secs())),
                }
            }
        };
        self.answer(&id, output.trim_end(), !ok)?;
        Ok(Done { ok, output })
    }

    /// A Bash call of which the caller gives the result itself.
    pub(super) fn open_call(&mut self, command: &str) -> anyhow::Result<Option<String>> {
        Ok(self.call("Bash", json!({"command": command}), None)?.ok())
    }

    /// The last word of a run that went well.
    pub(super) fn finish(&mut self, text: &str) -> super::Ending {
        self.say(text)?;
        let turns = self.calls;
        self.event(
            json!({"type": "result", "subtype": "success", "is_error": false, "api_error_status": null,
            "num_turns": turns, "result": text, "total_cost_usd": 0, "terminal_reason": "completed"}),
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs a program with its output in a file: a child that it leaves behind cannot hold us by an open pipe.
fn run_to_file(argv: &[&str], cwd: &Path) -> std::io::Result<(Option<std::process::ExitStatus>, String)> {
    let path = std::env::temp_dir().join(format!("demo-output-{}", std::process::id()));
    let out = std::fs::File::create(&path)?;
    let mut child = Command::new(argv[0])
        .args(&argv[1..])
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if started.elapsed() > COMMAND_PATIENCE => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut bytes = Vec::new();
    std::fs::File::open(&path)?.take(4 * OUTPUT_BYTES as u64).read_to_end(&mut bytes)?;
    let _ = std::fs::remove_file(path);
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

fn said_status(status: std::process::ExitStatus) -> String {
    status.code().map_or_else(|| "Killed\n".to_owned(), |code| format!("Exit code {code}\n"))
}
