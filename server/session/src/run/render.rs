//! Turns the agent's JSON lines into the lines people read, and collects the facts on the way.

mod tools;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use opkit_domain::session::OutputFormat;
use serde::Deserialize;

use self::tools::Tool;
use super::clean::{clean_into, plain};
use super::events::{
    ApiRetry, Block, Head, HookOutput, HookResponse, HookStarted, Init, RateLimitEvent, ResultLine, Turn,
    text_of,
};
use super::outcome::{Facts, Throttle};
use super::record::{Mark, Record};
use crate::files::now_ms;

pub(super) const RESET: &str = "\x1b[0m";
pub(super) const BOLD: &str = "\x1b[1m";
pub(super) const DIM: &str = "\x1b[2m";
pub(super) const RED: &str = "\x1b[31m";
pub(super) const GREEN: &str = "\x1b[32m";
pub(super) const YELLOW: &str = "\x1b[33m";
pub(super) const BLUE: &str = "\x1b[34m";
/// A tool that took at least this long has its time shown.
const SLOW_S: u64 = 3;
/// The agent's CLI gives the guard 20 seconds. A call without an answer after this long has no guard any more.
const GUARD_PATIENCE: Duration = Duration::from_secs(45);
const GREY: &str = "\x1b[90m";

/// Reads an agent's lines.
pub(super) struct Renderer {
    format: OutputFormat,
    /// The agent's directory: paths below it are shown without it.
    cwd: String,
    /// Tool calls that have no result yet.
    open: HashMap<String, Tool>,
    /// Calls the guard allowed that have not ended yet, by tool.
    allowed: HashMap<String, u32>,
    /// Calls that the guard was asked about and has not answered, by the hook's number.
    asked: HashMap<String, Instant>,
    /// The real CLI: its guard must answer each call.
    watch_guard: bool,
    scratch: String,
}

impl Renderer {
    pub(super) fn new(format: OutputFormat, cwd: &str) -> Renderer {
        Renderer {
            format,
            cwd: format!("{}/", cwd.trim_end_matches('/')),
            open: HashMap::new(),
            allowed: HashMap::new(),
            asked: HashMap::new(),
            watch_guard: false,
            scratch: String::new(),
        }
    }

    /// One line of standard output, without its line break.
    pub(super) fn line(&mut self, line: &[u8], out: &mut Record, facts: &mut Facts) {
        let lossy;
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(_) => {
                lossy = String::from_utf8_lossy(line).into_owned();
                &lossy
            }
        };
        if self.format == OutputFormat::Plain {
            return self.put(out, Mark::Plain, "", text);
        }
        if text.trim().is_empty() {
            return;
        }
        if self.event(text, out, facts).is_none() {
            self.put(out, Mark::Plain, DIM, text);
        }
    }

    /// One line of standard error.
    pub(super) fn stderr(&mut self, line: &[u8], out: &mut Record, facts: &mut Facts) {
        let text = String::from_utf8_lossy(line);
        facts.last_stderr = plain(&text, 300);
        self.put(out, Mark::Plain, DIM, &text);
    }

    /// None: not an event we understand; it is shown as it is.
    fn event(&mut self, text: &str, out: &mut Record, facts: &mut Facts) -> Option<()> {
        // The common kinds are told by their beginning, which spares one pass over long lines.
        if text.starts_with(r#"{"type":"user","#) || text.starts_with(r#"{"type":"assistant","#) {
            return self.turn(parse(text)?, text.starts_with(r#"{"type":"a"#), out, facts);
        }
        let head: Head<'_> = parse(text)?;
        match (head.kind.as_ref(), head.subtype.as_deref().unwrap_or("")) {
            ("assistant", _) => self.turn(parse(text)?, true, out, facts),
            ("user", _) => self.turn(parse(text)?, false, out, facts),
            ("system", "init") => self.init(&parse(text)?, out, facts),
            ("system", "hook_started") => {
                let hook: HookStarted = parse(text)?;
                if hook.hook_event == "PreToolUse" {
                    self.asked.insert(hook.hook_id, Instant::now());
                }
                Some(())
            }
            ("system", "hook_response") => self.hook(&parse(text)?, out, facts),
            ("system", "api_retry") => self.retry(&parse(text)?, out, facts),
            ("rate_limit_event", _) => rate_limit(&parse(text)?, facts),
            ("result", _) => self.result(parse(text)?, out, facts),
            // Kept in the transcript; nothing for people to read.
            _ => Some(()),
        }
    }

    fn init(&mut self, init: &Init, out: &mut Record, facts: &mut Facts) -> Option<()> {
        self.watch_guard = init.claude_code_version.is_some();
        facts.version.clone_from(&init.claude_code_version);
        let agent = match (&init.claude_code_version, &init.agent) {
            (Some(version), _) => format!("Claude Code {version}"),
            (None, Some(agent)) => agent.clone(),
            (None, None) => "agent".to_owned(),
        };
        let model = init.model.as_deref().unwrap_or("unknown");
        self.put(out, Mark::Plain, DIM, &format!("  {agent}, model {model}"));
        Some(())
    }

    fn retry(&mut self, retry: &ApiRetry, out: &mut Record, facts: &mut Facts) -> Option<()> {
        let why = retry.error.as_deref().unwrap_or("unknown");
        if retry.error_status == Some(429) || why == "rate_limit" {
            let delay = retry.retry_delay_ms.unwrap_or_default() as i64;
            facts.throttled = Some(Throttle { delay_ms: delay, until_ms: now_ms().saturating_add(delay) });
        }
        facts.activity = format!("Retry {} after {}", retry.attempt, plain(why, 40));
        self.put(
            out,
            Mark::Plain,
            DIM,
            &format!("  The provider did not answer ({why}), try {}", retry.attempt),
        );
        Some(())
    }

    fn turn(&mut self, turn: Turn<'_>, assistant: bool, out: &mut Record, facts: &mut Facts) -> Option<()> {
        if let Some(error) = turn.error {
            facts.error = Some(plain(&text_of(error), 80));
        }
        for block in turn.message.blocks() {
            match (assistant, block.kind.as_ref()) {
                (true, "text") => self.text(&block, turn.parent_tool_use_id.is_none(), out, facts),
                (true, "tool_use") => self.tool_use(&block, out, facts),
                (false, "tool_result") => self.tool_result(&block, &turn, out, facts),
                _ => {}
            }
        }
        Some(())
    }

    fn text(&mut self, block: &Block<'_>, main: bool, out: &mut Record, facts: &mut Facts) {
        let text = block.text.trim();
        if text.is_empty() {
            return;
        }
        if main {
            facts.last_text.clear();
            facts.last_text.push_str(&text[..text.floor_char_boundary(16_000)]);
        }
        out.line(Mark::Plain, "");
        for (at, line) in text.lines().enumerate() {
            let lead = if at == 0 { "\x1b[90m●\x1b[0m " } else { "  " };
            self.put(out, Mark::Plain, lead, line);
        }
    }

    fn tool_use(&mut self, block: &Block<'_>, out: &mut Record, facts: &mut Facts) {
        let tool = Tool::read(&block.name, block.input, &self.cwd);
        facts.turns += 1;
        facts.activity = plain(&format!("{} {}", tool.verb, tool.argument), 110);
        out.line(Mark::Plain, "");
        self.scratch.clear();
        self.scratch.push_str(&format!("{BLUE}●{RESET} {BOLD}"));
        clean_into(&mut self.scratch, &tool.verb);
        self.scratch.push_str(RESET);
        self.scratch.push(' ');
        clean_into(&mut self.scratch, &tool.argument);
        self.scratch.push_str(&tool.note);
        out.line(Mark::Step, &self.scratch);
        if tool.shows_more_lines() {
            for line in tool.argument_rest.lines().take(40) {
                self.put(out, Mark::Plain, "      ", line);
            }
        }
        self.open.insert(block.id.clone().into_owned(), tool);
    }

    fn tool_result(&mut self, block: &Block<'_>, turn: &Turn<'_>, out: &mut Record, facts: &mut Facts) {
        let tool = self.open.remove(block.tool_use_id.as_ref()).unwrap_or_default();
        let failed = block.is_error == Some(true);
        if !failed {
            self.count_success(&tool.name, facts);
        }
        let text = block.content.map(text_of).unwrap_or_default();
        if failed {
            // A denial is on the line above already.
            if facts.last_denial.as_deref().is_some_and(|denial| denial == plain(&text, 300)) {
                return;
            }
            for (at, line) in text.lines().enumerate() {
                self.put(out, if at == 0 { Mark::Error } else { Mark::Plain }, "  \x1b[31m", line);
            }
            return;
        }
        if tool.is_edit() {
            return tool.show_patch(turn.tool_use_result, out, &mut self.scratch);
        }
        let shown = tool.shown_lines();
        let mut lines = text.lines();
        for line in lines.by_ref().take(shown) {
            self.output_line(line, out);
        }
        let hidden = lines.count();
        if let Some(seconds) = tool.seconds().filter(|seconds| *seconds >= SLOW_S) {
            self.put(out, Mark::Plain, DIM, &format!("  {seconds} s"));
        }
        if hidden > 0 {
            let of = if shown == 0 { "" } else { "more " };
            self.put(out, Mark::Plain, DIM, &format!("  {hidden} {of}lines"));
        }
    }

    /// A line of a program's output, with the words coloured that people look for.
    fn output_line(&mut self, line: &str, out: &mut Record) {
        let (mark, lead) = match line.as_bytes().first() {
            Some(b'e' | b'E') if line.starts_with("error") || line.starts_with("Error") => (Mark::Error, RED),
            Some(b't') if line.starts_with("test ") && line.ends_with("FAILED") => (Mark::Error, RED),
            Some(b't') if line.starts_with("thread ") && line.contains(" panicked at ") => (Mark::Error, RED),
            Some(b'[') if is_commit_line(line) => (Mark::Commit, ""),
            Some(b'F') if line.starts_with("FAILED") => (Mark::Error, RED),
            _ => (Mark::Plain, ""),
        };
        self.scratch.clear();
        self.scratch.push_str("  ");
        self.scratch.push_str(lead);
        clean_into(&mut self.scratch, line);
        if !lead.is_empty() {
            self.scratch.push_str(RESET);
        }
        out.line(mark, &self.scratch);
    }

    fn hook(&mut self, hook: &HookResponse, out: &mut Record, facts: &mut Facts) -> Option<()> {
        let (event, tool) = hook.hook_name.split_once(':').unwrap_or((&hook.hook_event, ""));
        if event == "PostToolUseFailure" {
            // It ran with the guard's leave and failed: its result will not use the leave.
            self.take_leave(tool);
        }
        if event != "PreToolUse" {
            return Some(());
        }
        self.asked.remove(&hook.hook_id);
        let decision = parse::<HookOutput>(hook.stdout.trim()).map(|output| output.hook_specific_output);
        let denied = match &decision {
            Some(decision) if decision.permission_decision == "deny" => {
                Some(decision.permission_decision_reason.clone())
            }
            _ if hook.exit_code == Some(2) => Some(hook.stderr.clone()),
            _ => None,
        };
        let answered = decision.is_some() && hook.outcome.as_deref() == Some("success");
        if let (None, Some(gone)) = (&facts.guard_gone, gone(hook)) {
            facts.guard_gone = Some(gone);
        }
        if !answered {
            facts.guard_failures += 1;
        } else if denied.is_none() {
            *self.allowed.entry(tool.to_owned()).or_default() += 1;
        }
        if let Some(reason) = denied {
            facts.denials += 1;
            facts.last_denial = Some(plain(&reason, 300));
            self.put(out, Mark::Error, "  \x1b[33mDenied\x1b[0m ", reason.lines().next().unwrap_or(""));
        }
        Some(())
    }

    /// Each call that succeeds uses one leave of the guard; one without got past it. A call that fails may have
    /// failed before any hook (an unknown tool, an input that is not valid), so it tells nothing.
    fn count_success(&mut self, tool: &str, facts: &mut Facts) {
        if !self.take_leave(tool) {
            facts.unguarded += u32::from(self.watch_guard);
        }
    }

    fn take_leave(&mut self, tool: &str) -> bool {
        let left = self.allowed.get_mut(tool).filter(|count| **count > 0);
        left.map(|count| *count -= 1).is_some()
    }

    /// Why the session must not go on. Only the real CLI has a guard to watch.
    pub(super) fn broken_guard(&self, facts: &Facts, now: Instant) -> Option<String> {
        let overdue = |asked: &Instant| now.saturating_duration_since(*asked) >= GUARD_PATIENCE;
        let why = match (&facts.guard_gone, facts.unguarded, facts.guard_failures) {
            _ if !self.watch_guard => return None,
            (_, 1.., _) => "a call ran without its answer",
            (Some(gone), 0, _) => gone,
            (None, 0, 3..) => "it did not answer three calls",
            (None, 0, 0..3) if self.asked.values().any(overdue) => "a call has waited 45 s for its answer",
            (None, 0, 0..3) => return None,
        };
        Some(format!("The guard is broken: {why}."))
    }

    fn result(&mut self, result: ResultLine, out: &mut Record, facts: &mut Facts) -> Option<()> {
        facts.results += 1;
        facts.turns = result.num_turns;
        // Costs are far below the point where a double loses millionths.
        facts.cost_usd_micros = (result.total_cost_usd * 1e6).round() as i64;
        out.line(Mark::Plain, "");
        let (mark, colour, word) = if result.is_error {
            (Mark::Error, RED, "Ended with an error")
        } else {
            (Mark::Step, GREEN, "Finished")
        };
        let said = match &result.result {
            Some(text) if result.is_error => format!(": {}", plain(text.lines().next().unwrap_or(""), 400)),
            _ => String::new(),
        };
        let turns = result.num_turns;
        let cost = result.total_cost_usd;
        self.put(
            out,
            mark,
            &format!("{colour}●{RESET} {BOLD}{word}{RESET}"),
            &format!("{said} {GREY}{turns} turns, ${cost:.2}"),
        );
        facts.result = Some(result);
        Some(())
    }

    /// Puts one line of foreign text after `lead`, which may open a style.
    fn put(&mut self, out: &mut Record, mark: Mark, lead: &str, text: &str) {
        self.scratch.clear();
        self.scratch.push_str(lead);
        clean_into(&mut self.scratch, text);
        if self.scratch.contains('\x1b') {
            self.scratch.push_str(RESET);
        }
        out.line(mark, &self.scratch);
    }
}

fn rate_limit(event: &RateLimitEvent, facts: &mut Facts) -> Option<()> {
    if event.rate_limit_info.status == "rejected" {
        // Seconds since 1970 as milliseconds; a number that large is milliseconds already.
        let at = |number: f64| if number > 1e11 { number as i64 } else { (number * 1000.0) as i64 };
        facts.quota_refused = Some(event.rate_limit_info.resets_at.map(at));
        facts.quota_kind.clone_from(&event.rate_limit_info.rate_limit_type);
    } else if facts.quota_kind == event.rate_limit_info.rate_limit_type {
        // The same quota lets calls through again: what ends the session later is something else.
        facts.quota_refused = None;
    }
    Some(())
}

/// What our guard never does: it answers with status 0, or 2 when it cannot.
fn gone(hook: &HookResponse) -> Option<String> {
    match (hook.exit_code, hook.outcome.as_deref()) {
        // How the CLI reports a hook that ran out of time.
        (_, Some("cancelled")) => Some("it did not answer in time".to_owned()),
        (Some(code), _) if code != 0 && code != 2 => Some(format!("it left with status {code}")),
        _ => None,
    }
}

/// `[obj/42 1a2b3c4] Message`, as git prints it.
fn is_commit_line(line: &str) -> bool {
    let Some((head, _)) = line[1..].split_once("] ") else { return false };
    let id = head.rsplit(' ').next().unwrap_or("");
    (7..=40).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && head.contains(' ')
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_is_asked_and_stays_silent_is_broken_within_a_minute() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut record = Record::open(dir.path(), 1 << 20, 0).expect("a record");
        let mut facts = Facts::default();
        let mut renderer = Renderer::new(OutputFormat::ClaudeStreamJson, "/");
        let mut event = |text: &str, renderer: &mut Renderer| {
            renderer.line(text.as_bytes(), &mut record, &mut facts);
            let at = |seconds| renderer.broken_guard(&facts, Instant::now() + Duration::from_secs(seconds));
            (at(0), at(59))
        };
        let init = r#"{"type":"system","subtype":"init","claude_code_version":"2"}"#;
        let started = r#"{"type":"system","subtype":"hook_started","hook_id":"h1","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse"}"#;
        let answer = r#"{"type":"system","subtype":"hook_response","hook_id":"h1","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse","stdout":"{\"hookSpecificOutput\":{\"permissionDecision\":\"allow\"}}","exit_code":0,"outcome":"success"}"#;
        assert_eq!(event(init, &mut renderer), (None, None));
        let (now, later) = event(started, &mut renderer);
        assert!(now.is_none() && later.is_some_and(|why| why.contains("waited 45 s")));
        assert_eq!(event(answer, &mut renderer), (None, None));
        let late = answer.replace("success", "cancelled");
        assert!(event(&late, &mut renderer).0.is_some_and(|why| why.contains("in time")));
    }
}
