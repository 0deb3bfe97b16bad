//! Steps and the floor: programs that run behind the wall before and after the agent.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use opkit_domain::session::{Floor, FloorCommand, FloorCommandResult, FloorResult, Step, files};
use rustix::process::{Gid, Pid, Uid};

use super::Runner;
use super::clean::{plain, plain_lines};
use super::journal::Journal;
use super::outcome::Facts;
use super::record::Mark;
use super::render::{BLUE, BOLD, DIM, GREEN, RED, RESET};
use super::supervise::{Ended, Lines, Reader, Stop, Watched, input};
use crate::enter::{EnterReport, EnterSpec, Entry, ProcessLimits};
use crate::files::{Durability, replace_as};

/// Output of a floor command that is kept.
const FLOOR_TAIL: usize = 8 << 10;
/// Output of a floor command after which it is killed.
const FLOOR_OUTPUT: u64 = 64 << 20;

/// Bytes of any one file that a session writes: a runaway program must not fill the disk with one of them.
const FILE_BYTES: u64 = 8 << 30;

/// A program behind the wall.
pub(super) struct Program<'a> {
    pub(super) argv: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) extra_env: Vec<(String, String)>,
    pub(super) extra_write: &'a [PathBuf],
    /// Instead of what the session may write in.
    pub(super) only_write: Option<&'a [PathBuf]>,
}

/// A step that did not do its work.
pub(super) struct StepFailure {
    /// One sentence.
    pub(super) reason: String,
    /// A request to stop was the cause.
    pub(super) stop: Option<Stop>,
}

/// Shows a program's output dim and indented, and keeps its end.
struct StepReader {
    out: Lines,
    err: Lines,
    tail: VecDeque<u8>,
    keep: usize,
}

impl StepReader {
    fn new(keep: usize) -> StepReader {
        StepReader { out: Lines::new(4096), err: Lines::new(4096), tail: VecDeque::new(), keep }
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.tail.extend(bytes);
        let surplus = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..surplus);
    }

    fn tail(&mut self) -> String {
        plain_lines(self.tail.make_contiguous())
    }
}

fn show(line: &[u8], journal: &mut Journal) {
    journal.say(Mark::Plain, "\x1b[2m  ", &String::from_utf8_lossy(line));
}

impl Reader for StepReader {
    fn stdout(&mut self, bytes: &[u8], journal: &mut Journal, _: &mut Facts) {
        self.remember(bytes);
        self.out.feed(bytes, |line| show(line, journal));
    }

    fn stderr(&mut self, bytes: &[u8], journal: &mut Journal, _: &mut Facts) {
        self.remember(bytes);
        self.err.feed(bytes, |line| show(line, journal));
    }

    fn end(&mut self, journal: &mut Journal, _: &mut Facts) {
        self.out.end(|line| show(line, journal));
        self.err.end(|line| show(line, journal));
    }

    fn wants_stop(&mut self, _: &Facts) -> Option<Stop> {
        None
    }
}

/// What [`Runner::start`] started.
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    pub(super) entry: Entry,
}

impl Runner {
    /// Starts a program through `enter`.
    pub(super) fn start(&self, program: Program<'_>, stdin: Stdio, stdout: Stdio) -> anyhow::Result<Started> {
        let mut wall = self.spec.wall.clone();
        if let Some(only) = program.only_write {
            wall.write = only.to_vec();
        }
        wall.write.extend_from_slice(program.extra_write);
        let mut env = self.spec.env.clone();
        for (name, value) in program.extra_env {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        let spec = EnterSpec {
            identity: self.spec.identity.clone(),
            wall,
            cwd: program.cwd,
            argv: program.argv,
            env,
            limits: ProcessLimits { processes: self.spec.processes, file_bytes: Some(FILE_BYTES) },
            new_session: true,
        };
        let mut entry =
            Entry::new(&self.program, &spec).context("the spec of a program cannot be written")?;
        let mut child = entry
            .command
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .context("enter cannot be started")?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        // Programs open `/dev/stderr` by its name, which asks for rights on the pipe itself.
        if let Some(identity) = &self.spec.identity {
            let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
            let ends = [child.stdout.as_ref().map(AsFd::as_fd), child.stderr.as_ref().map(AsFd::as_fd)];
            for end in ends.into_iter().flatten() {
                // Refused, they work by their descriptor all the same.
                let _ = rustix::fs::fchown(end, Some(uid), Some(gid));
            }
        }
        // The child is reaped by the loop that reaps all; dropping the handle does nothing.
        Ok(Started {
            pid,
            stdout: child.stdout.take().map(Into::into),
            stderr: child.stderr.take().map(Into::into),
            entry,
        })
    }

    /// Runs one step to its end.
    pub(super) fn step(&mut self, step: &Step, stoppable: bool) -> Result<(), StepFailure> {
        self.journal.say(Mark::Plain, "", "");
        self.journal.say(Mark::Step, &format!("{BLUE}●{RESET} {BOLD}"), &step.title);
        let mut reader = StepReader::new(2 << 10);
        let result = self.run_step(step, stoppable, &mut reader);
        let (reason, stop) = match result {
            Ok((ended, refused)) => match reason_of(&ended, refused, step.timeout_s) {
                None => return Ok(()),
                Some(reason) => (reason, ended.stop),
            },
            Err(error) => (format!("{error:#}"), None),
        };
        let tail = reader.tail();
        let last: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = last[last.len().saturating_sub(5)..].join("\n");
        let reason = match (&stop, last.is_empty()) {
            (Some(stop), _) => stop.detail.clone(),
            (None, true) => format!("{}: {reason}.", step.title),
            (None, false) => format!("{}: {reason}.\n{last}", step.title),
        };
        self.journal.say(Mark::Error, &format!("  {RED}"), reason.lines().next().unwrap_or(""));
        Err(StepFailure { reason, stop })
    }

    fn run_step(
        &mut self,
        step: &Step,
        stoppable: bool,
        reader: &mut StepReader,
    ) -> anyhow::Result<(Ended, Option<String>)> {
        let stdin = input(step.stdin.as_ref()).context("its input cannot be read")?;
        let output_file = step.stdout.as_ref().map(|name| self.dir.join(name));
        let stdout = match &output_file {
            None => Stdio::piped(),
            Some(path) => OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)
                .context("its output file cannot be written")?
                .into(),
        };
        let program = Program {
            argv: step.argv.clone(),
            cwd: step.cwd.clone(),
            extra_env: step.env.clone(),
            extra_write: &step.extra_write,
            only_write: None,
        };
        let started = self.start(program, stdin, stdout)?;
        let limits = Limits { seconds: step.timeout_s, bytes: step.max_output, output_file, stoppable };
        Ok(self.finish(started, limits, reader))
    }

    /// Watches a started program; the reason when `enter` refused.
    fn finish(
        &mut self,
        started: Started,
        limits: Limits,
        reader: &mut StepReader,
    ) -> (Ended, Option<String>) {
        let Started { pid, stdout, stderr, mut entry } = started;
        let watched = Watched {
            pid,
            stdout,
            stderr,
            time: Some(Duration::from_secs(limits.seconds)),
            idle: None,
            max_output: limits.bytes,
            output_file: limits.output_file,
            polite: None,
            stoppable: limits.stoppable,
            is_agent: false,
        };
        let ended = self.supervise(watched, reader);
        (ended, refusal(&mut entry))
    }

    /// Runs the floor. An error in it is a red floor; a request to stop is an `Err`.
    pub(super) fn floor(&mut self, floor: &Floor) -> Result<FloorResult, Stop> {
        let mut result = FloorResult::default();
        for step in &floor.prepare {
            match self.step(step, true) {
                Ok(()) => {}
                Err(StepFailure { stop: Some(stop), .. }) => return Err(stop),
                Err(_) if step.may_fail => {}
                Err(failure) => {
                    result.error = Some(failure.reason);
                    break;
                }
            }
        }
        if result.error.is_none() {
            for command in &floor.commands {
                let done = self.floor_command(floor, command)?;
                let failed_set_up = !done.green() && is_set_up(command);
                result.commands.push(done);
                if failed_set_up {
                    break;
                }
            }
        }
        for step in &floor.clear {
            // A failure is said in the record; what is left is in nobody's way.
            if let Err(StepFailure { stop: Some(stop), .. }) = self.step(step, true) {
                return Err(stop);
            }
        }
        self.write_floor(&result);
        Ok(result)
    }

    fn write_floor(&mut self, result: &FloorResult) {
        let Ok(text) = serde_json::to_vec_pretty(result) else { return };
        // The reviewer reads the copy as another user.
        let mut places = vec![(self.dir.clone(), 0o600)];
        places.extend(self.spec.floor_copy.clone().map(|copy| (copy, 0o644)));
        for (place, mode) in places {
            let path = place.join(files::FLOOR);
            if let Err(error) = replace_as(&path, &text, Durability::Cached, mode) {
                self.journal.say(Mark::Error, RED, &format!("{} cannot be written: {error}", path.display()));
            }
        }
    }

    fn floor_command(&mut self, floor: &Floor, command: &FloorCommand) -> Result<FloorCommandResult, Stop> {
        self.journal.say(Mark::Plain, "", "");
        self.journal.say(
            Mark::Step,
            &format!("{BLUE}●{RESET} {BOLD}Check{RESET} "),
            &plain(&command.title, 200),
        );
        self.journal.say(Mark::Plain, "\x1b[2m  $ ", &plain(&command.command, 400));
        let start = Instant::now();
        let mut reader = StepReader::new(FLOOR_TAIL);
        let program = Program {
            argv: ["/bin/sh", "-c", &command.command].map(str::to_owned).to_vec(),
            cwd: floor.cwd.clone(),
            extra_env: floor.env.clone(),
            extra_write: &[],
            only_write: floor.write.as_deref(),
        };
        let mut result = FloorCommandResult {
            title: command.title.clone(),
            criterion: command.criterion,
            command: command.command.clone(),
            status: None,
            timed_out: false,
            output: String::new(),
            ms: 0,
        };
        match self.start(program, Stdio::null(), Stdio::piped()) {
            Err(error) => result.output = format!("{error:#}"),
            Ok(started) => {
                let limits = Limits {
                    seconds: command.timeout_s,
                    bytes: FLOOR_OUTPUT,
                    output_file: None,
                    stoppable: true,
                };
                let (ended, refused) = self.finish(started, limits, &mut reader);
                if let Some(stop) = ended.stop {
                    return Err(stop);
                }
                // A command that was killed or never ran has no status of its own.
                result.status = ended.exit.status.filter(|_| !ended.too_much && refused.is_none());
                result.timed_out = ended.timed_out;
                result.output = reader.tail();
                if ended.too_much {
                    result.output.push_str("\nIt was killed: too much output.");
                }
            }
        }
        result.ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.say_result(&result);
        Ok(result)
    }

    fn say_result(&mut self, result: &FloorCommandResult) {
        let seconds = result.ms as f64 / 1000.0;
        let (mark, line) = match (result.green(), result.timed_out, result.status) {
            (true, _, _) => (Mark::Plain, format!("{GREEN}  passed{RESET} {DIM}{seconds:.1} s{RESET}")),
            (_, true, _) => (Mark::Error, format!("{RED}  timed out after {seconds:.0} s{RESET}")),
            (_, _, Some(status)) => {
                (Mark::Error, format!("{RED}  failed, exit {status}{RESET} {DIM}{seconds:.1} s{RESET}"))
            }
            (_, _, None) => (Mark::Error, format!("{RED}  failed{RESET} {DIM}{seconds:.1} s{RESET}")),
        };
        self.journal.record.line(mark, &line);
    }
}

/// Limits of one program.
struct Limits {
    seconds: u64,
    bytes: u64,
    output_file: Option<PathBuf>,
    stoppable: bool,
}

fn is_set_up(command: &FloorCommand) -> bool {
    command.criterion.is_none() && command.title == "set-up"
}

/// Why `enter` did not start the program, if so.
pub(super) fn refusal(entry: &mut Entry) -> Option<String> {
    match entry.report() {
        Some(EnterReport::Proof(_)) => None,
        Some(EnterReport::Refused(reason)) => Some(reason),
        None => Some("it was ended before it began".to_owned()),
    }
}

fn reason_of(ended: &Ended, refused: Option<String>, timeout_s: u64) -> Option<String> {
    if let Some(stop) = &ended.stop {
        return Some(stop.detail.clone());
    }
    if let Some(reason) = refused {
        return Some(reason);
    }
    match (ended.timed_out, ended.too_much, ended.exit.status, ended.exit.signal) {
        (true, ..) => Some(format!("not done after {timeout_s} s")),
        (_, true, ..) => Some("too much output".to_owned()),
        (_, _, Some(0), _) => None,
        (_, _, Some(status), _) => Some(format!("exit {status}")),
        (_, _, _, Some(signal)) => Some(format!("ended by signal {signal}")),
        (_, _, None, None) => Some("its end was not seen".to_owned()),
    }
}
