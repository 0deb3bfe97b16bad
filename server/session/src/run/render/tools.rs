//! How each tool's call and result are shown.

use std::time::Instant;

use serde_json::value::RawValue;

use super::super::clean::{clean_into, plain};
use super::super::events::{Patch, ToolInput};
use super::super::record::{Mark, Record};
use super::{DIM, GREEN, RED, RESET};

/// Lines of a diff that are shown.
const PATCH_LINES: usize = 200;

/// A tool call, as it is shown.
#[derive(Default)]
pub(super) struct Tool {
    pub(super) name: String,
    /// "Run", "Edit", ...
    pub(super) verb: String,
    /// What the verb is about, one line.
    pub(super) argument: String,
    /// Further lines of a command.
    pub(super) argument_rest: String,
    /// " +3 -2", " lines 96 to 180": ours, with its colours.
    pub(super) note: String,
    /// Removed and added lines, for when the CLI reports no patch.
    changes: Vec<(char, String)>,
    started: Option<Instant>,
}

impl Tool {
    /// Reads a call; `cwd` (with a slash) is cut from paths.
    pub(super) fn read(name: &str, input: Option<&RawValue>, cwd: &str) -> Tool {
        let input: ToolInput = input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let short = |path: &str| path.strip_prefix(cwd).unwrap_or(path).to_owned();
        let mut tool = Tool { name: name.to_owned(), started: Some(Instant::now()), ..Tool::default() };
        let (verb, argument) = match name {
            "Bash" => ("Run", input.command.clone()),
            "Read" => ("Read", short(&input.file_path)),
            "Write" => ("Write", short(&input.file_path)),
            "Edit" | "MultiEdit" => ("Edit", short(&input.file_path)),
            "NotebookEdit" => ("Edit", short(&input.notebook_path)),
            "Grep" | "Glob" if input.path.is_empty() => ("Search", input.pattern.clone()),
            "Grep" | "Glob" => ("Search", format!("{} in {}", input.pattern, short(&input.path))),
            "Task" | "Agent" => ("Delegate", input.description.clone()),
            "TodoWrite" => ("Plan", String::new()),
            other => (other, String::new()),
        };
        tool.verb = verb.to_owned();
        let (first, rest) = argument.split_once('\n').unwrap_or((&argument, ""));
        tool.argument = first.to_owned();
        tool.argument_rest = rest.to_owned();
        tool.note = tool.note_of(&input);
        tool
    }

    fn note_of(&mut self, input: &ToolInput) -> String {
        match self.name.as_str() {
            "Read" => match (input.offset, input.limit) {
                (None, None) => String::new(),
                (from, Some(count)) => {
                    let from = from.unwrap_or(1);
                    format!(" {DIM}lines {from} to {}{RESET}", from.saturating_add(count).saturating_sub(1))
                }
                (Some(from), None) => format!(" {DIM}from line {from}{RESET}"),
            },
            "Write" => {
                self.changes = input.content.lines().map(|line| ('+', line.to_owned())).collect();
                self.counts()
            }
            "Edit" => {
                self.changes = changed_lines(&input.old_string, &input.new_string);
                self.counts()
            }
            "MultiEdit" => {
                self.changes = input
                    .edits
                    .iter()
                    .flat_map(|edit| changed_lines(&edit.old_string, &edit.new_string))
                    .collect();
                self.counts()
            }
            _ => String::new(),
        }
    }

    fn counts(&self) -> String {
        let count = |sign| self.changes.iter().filter(|(kind, _)| *kind == sign).count();
        match (count('+'), count('-')) {
            (added, 0) => format!(" {GREEN}+{added}{RESET}"),
            (added, removed) => format!(" {GREEN}+{added}{RESET} {RED}-{removed}{RESET}"),
        }
    }

    /// Seconds since the call.
    pub(super) fn seconds(&self) -> Option<u64> {
        self.started.map(|started| started.elapsed().as_secs())
    }

    pub(super) fn shows_more_lines(&self) -> bool {
        !self.argument_rest.is_empty()
    }

    pub(super) fn is_edit(&self) -> bool {
        matches!(self.name.as_str(), "Write" | "Edit" | "MultiEdit" | "NotebookEdit")
    }

    /// How many lines of the result are shown: a program's output whole, file contents not at all.
    pub(super) fn shown_lines(&self) -> usize {
        match self.name.as_str() {
            "Read" | "TodoWrite" => 0,
            "Grep" | "Glob" => 20,
            _ => usize::MAX,
        }
    }

    /// Shows the patch the CLI reports, else the lines of the call.
    pub(super) fn show_patch(&self, reported: Option<&RawValue>, out: &mut Record, scratch: &mut String) {
        let patch: Option<Patch> = reported.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let mut lines: Vec<(Option<u64>, char, &str)> = Vec::new();
        match &patch {
            Some(patch) if !patch.structured_patch.is_empty() => {
                for hunk in &patch.structured_patch {
                    let (mut old, mut new) = (hunk.old_start, hunk.new_start);
                    for line in &hunk.lines {
                        let sign = line.chars().next().unwrap_or(' ');
                        let number = if sign == '-' { old } else { new };
                        old = old.saturating_add(u64::from(sign != '+'));
                        new = new.saturating_add(u64::from(sign != '-'));
                        lines.push((Some(number), sign, line.get(sign.len_utf8()..).unwrap_or("")));
                    }
                }
            }
            _ => {
                let number = |at: usize| (self.name == "Write").then_some(at as u64 + 1);
                lines.extend(
                    self.changes
                        .iter()
                        .enumerate()
                        .map(|(at, (sign, line))| (number(at), *sign, line.as_str())),
                );
            }
        }
        for (number, sign, line) in lines.iter().take(PATCH_LINES) {
            let colour = match sign {
                '+' => GREEN,
                '-' => RED,
                _ => DIM,
            };
            let number = number.map(|number| number.to_string()).unwrap_or_default();
            scratch.clear();
            scratch.push_str(&format!("  {DIM}{number:>4}{RESET} {colour}{sign} "));
            clean_into(scratch, line);
            scratch.push_str(RESET);
            out.line(Mark::Plain, scratch);
        }
        if lines.len() > PATCH_LINES {
            out.line(Mark::Plain, &plain(&format!("       {} more lines", lines.len() - PATCH_LINES), 80));
        }
    }
}

/// Removed then added lines, without what both have in common at the beginning and the end.
fn changed_lines(old: &str, new: &str) -> Vec<(char, String)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[same..], &new[same..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let removed = old[..old.len() - tail].iter().map(|line| ('-', (*line).to_owned()));
    let added = new[..new.len() - tail].iter().map(|line| ('+', (*line).to_owned()));
    removed.chain(added).collect()
}
