//! The demo agent at work: makes the criteria true where it can see how, commits, and leaves its artifact.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Ending;
use super::brief::Brief;
use super::checks::{Need, needs};
use super::speech::Speech;

/// In every commit message of the demo agent.
const SIGNATURE: &str = "Made by the demo agent.";

/// What a draft claims about the criteria.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// All met, which is not true.
    Met,
    /// Not met, which is honest.
    NotMet,
}

/// Does the objective as well as a script can.
pub(super) fn good(speech: &mut Speech, brief: &Brief) -> Ending {
    speech.say("First I look whether the branch already meets the criteria.")?;
    let log = speech.run(&["git", "log", "--oneline", "-n", "5"])?;
    // Only what this branch has beyond its base: merged work of earlier objectives carries the same signature.
    let range = brief.base.as_deref().map_or_else(|| "HEAD".to_owned(), |base| format!("{base}..HEAD"));
    let mine = speech.run(&[
        "git",
        "log",
        "--fixed-strings",
        "--grep",
        SIGNATURE,
        "--format=%h",
        "-n",
        "1",
        &range,
        "--",
    ])?;
    let has_checks = brief.criteria.iter().any(|criterion| criterion.check.is_some());
    if log.ok && !mine.output.trim().is_empty() && brief.findings.is_empty() && has_checks {
        let results = run_checks(speech, brief)?;
        if results.iter().all(|met| *met) {
            speech.say("The branch meets the criteria already. I report instead of doing it again.")?;
            return deliver(speech, brief, &[], &results);
        }
    }
    if !brief.findings.is_empty() {
        let list: Vec<String> = brief.findings.iter().map(|finding| format!("- {finding}")).collect();
        speech.say(&format!("The last round found:\n{}\nI mend that now.", list.join("\n")))?;
    }
    let changed = edit(speech, brief)?;
    let results = run_checks(speech, brief)?;
    commit(speech, brief, &brief.title)?;
    deliver(speech, brief, &changed, &results)
}

/// Commits something that meets no criterion.
pub(super) fn draft(speech: &mut Speech, brief: &Brief, claim: Claim) -> Ending {
    let path = PathBuf::from(format!("draft-{}.md", brief.objective));
    let line = format!("Draft for round {}: notes that meet no criterion yet.\n", brief.round.max(1));
    speech.append(&path, &format!("{line}Findings seen so far: {}.\n", brief.findings.len()))?;
    commit(speech, brief, "Draft")?;
    let results = vec![claim == Claim::Met; brief.criteria.len()];
    deliver(speech, brief, &[path], &results)
}

/// Everything the criteria, then the brief, ask for. Returns the files.
fn edit(speech: &mut Speech, brief: &Brief) -> anyhow::Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    let checks: Vec<Need> =
        brief.criteria.iter().filter_map(|c| c.check.as_deref()).flat_map(needs).collect();
    for need in &checks {
        changed.extend(fulfil(speech, brief, need)?);
    }
    for name in brief.named_files() {
        let path = PathBuf::from(name);
        if !changed.contains(&path) && !is_directory(speech, &path) {
            extend(speech, brief, &path)?;
            changed.push(path);
        }
    }
    if changed.is_empty() || !brief.findings.is_empty() && !has_changes(speech) {
        let path = PathBuf::from(format!("docs/objective-{}.md", brief.objective));
        let text = if speech.cwd().join(&path).exists() { round_notes(brief) } else { notes(brief) };
        speech.append(&path, &text)?;
        changed.push(path);
    }
    Ok(changed)
}

fn is_directory(speech: &Speech, path: &Path) -> bool {
    speech.cwd().join(path).is_dir()
}

/// Whether there is anything to commit; asked without showing.
fn has_changes(speech: &Speech) -> bool {
    let mut git = std::process::Command::new("git");
    let output = git.args(["status", "--porcelain"]).current_dir(speech.cwd()).output();
    output.is_ok_and(|output| !output.stdout.is_empty())
}

fn fulfil(speech: &mut Speech, brief: &Brief, need: &Need) -> anyhow::Result<Option<PathBuf>> {
    let path = match need {
        Need::File(path) | Need::Line(path, _) | Need::Executable(path) => path.clone(),
        Need::Directory(path) => path.join(".gitkeep"),
    };
    let full = speech.cwd().join(&path);
    match need {
        Need::File(_) | Need::Directory(_) if full.exists() => return Ok(None),
        Need::File(_) => speech.write(&path, &content(&path, brief))?,
        Need::Directory(_) => speech.write(&path, "")?,
        Need::Line(_, text) => {
            if fs::read_to_string(&full).is_ok_and(|old| old.contains(text.as_str())) {
                return Ok(None);
            }
            speech.append(&path, &format!("{text}\n"))?
        }
        Need::Executable(_) => {
            let done = if full.exists() {
                speech.run(&["chmod", "755", &path.to_string_lossy()])?
            } else {
                speech.write(&path, &content(&path, brief))?
            };
            if done.ok {
                fs::set_permissions(&full, fs::Permissions::from_mode(0o755))?;
            }
            done
        }
    };
    Ok(Some(path))
}

/// Creates the file, or adds to it what its kind allows.
fn extend(speech: &mut Speech, brief: &Brief, path: &Path) -> anyhow::Result<()> {
    if !speech.cwd().join(path).exists() {
        speech.write(path, &content(path, brief))?;
        return Ok(());
    }
    let title = &brief.title;
    let line = match extension(path) {
        "md" | "txt" => format!("\n{title}: see objective #{}.\n", brief.objective),
        kind => match comment(kind) {
            Some((open, close)) => format!("{open}{title} (objective #{}){close}\n", brief.objective),
            // A format without comments is better left alone than broken.
            None => return Ok(()),
        },
    };
    speech.append(path, &line)?;
    Ok(())
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or("")
}

/// How a line of comment begins and ends.
fn comment(kind: &str) -> Option<(&'static str, &'static str)> {
    match kind {
        "rs" | "js" | "ts" | "go" | "c" | "h" | "cpp" | "java" | "kt" | "swift" => Some(("// ", "")),
        "py" | "sh" | "rb" | "toml" | "yml" | "yaml" => Some(("# ", "")),
        "html" | "xml" | "svg" => Some(("<!-- ", " -->")),
        "css" => Some(("/* ", " */")),
        "sql" => Some(("-- ", "")),
        _ => None,
    }
}

/// Sensible first content for a file of this kind.
fn content(path: &Path, brief: &Brief) -> String {
    let title = brief.title.replace('\n', " ");
    let id = brief.objective;
    match extension(path) {
        "md" => notes(brief),
        "json" => format!("{}\n", serde_json::json!({"objective": id, "title": title})),
        "sh" => format!("#!/bin/sh\n# {title}\nset -eu\necho 'objective {id}'\n"),
        "py" => format!(
            "\"\"\"Objective {id}.\"\"\"\n\n\ndef main():\n    print(\"objective {id}\")\n\n\nif __name__ == \"__main__\":\n    main()\n"
        ),
        "html" => format!(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Objective {id}</title>\n<h1>Objective {id}</h1>\n"
        ),
        kind => match comment(kind) {
            Some((open, close)) => format!("{open}{title} (objective #{id}){close}\n"),
            None => format!("{title}\n\n{}\n", brief.brief.trim()),
        },
    }
}

fn notes(brief: &Brief) -> String {
    let criteria: Vec<String> =
        brief.criteria.iter().map(|c| format!("{}. {}", c.index + 1, c.text)).collect();
    format!("# {}\n\n{}\n\n## Acceptance\n\n{}\n", brief.title, brief.brief.trim(), criteria.join("\n"))
}

fn round_notes(brief: &Brief) -> String {
    let list: Vec<String> =
        brief.findings.iter().map(|finding| format!("- {}", finding.replace('\n', " "))).collect();
    format!("\n## Round {}\n\n{}\n", brief.round.max(1), list.join("\n"))
}

/// Runs each criterion's check; a criterion without one counts as met.
fn run_checks(speech: &mut Speech, brief: &Brief) -> anyhow::Result<Vec<bool>> {
    let mut results = Vec::new();
    for criterion in &brief.criteria {
        results.push(match &criterion.check {
            Some(check) => speech.shell(check)?.ok,
            None => true,
        });
    }
    Ok(results)
}

/// Commits everything; nothing to commit is said, not an error.
fn commit(speech: &mut Speech, brief: &Brief, title: &str) -> anyhow::Result<()> {
    speech.run(&["git", "add", "-A"])?;
    let title: String = title.replace('\n', " ").chars().take(72).collect();
    let title = if title.trim().is_empty() { format!("Objective {}", brief.objective) } else { title };
    let done = speech.run(&["git", "commit", "-m", &title, "-m", SIGNATURE])?;
    if !done.ok {
        anyhow::ensure!(!has_changes(speech), "git did not commit: {}", done.output.trim());
        speech.say("There was nothing new to commit.")?;
    }
    Ok(())
}

/// Writes NOTES.md and ARTIFACT.md and ends.
fn deliver(speech: &mut Speech, brief: &Brief, changed: &[PathBuf], results: &[bool]) -> Ending {
    let names: Vec<String> = changed.iter().map(|path| format!("`{}`", path.display())).collect();
    let where_to =
        if names.is_empty() { "what the branch already holds".to_owned() } else { names.join(", ") };
    let mut lines = Vec::new();
    for (criterion, met) in brief.criteria.iter().zip(results) {
        let evidence = match &criterion.check {
            Some(check) => format!("`{check}`"),
            None => where_to.clone(),
        };
        let number = criterion.index + 1;
        lines.push(if *met {
            format!("- Criterion {number}: met. Evidence: {evidence}")
        } else {
            format!("- Criterion {number}: not met. Tried: {evidence}")
        });
    }
    let artifact = format!(
        "# Artifact: {}\n\nMade by the demo agent, a script.\n\n## What\n\n{}\n\n## Where\n\nBranch `obj/{}`: {where_to}.\n\n## Evidence\n\n{}\n",
        brief.title,
        brief.brief.lines().next().unwrap_or(&brief.title),
        brief.objective,
        lines.join("\n"),
    );
    if let Some(memory) = std::env::var_os("OPKIT_MEMORY").map(PathBuf::from) {
        let notes = format!("Round {}: changed {where_to}.\n", brief.round.max(1));
        speech.append(&memory.join("NOTES.md"), &notes)?;
        speech.write(&memory.join("ARTIFACT.md"), &artifact)?;
    }
    let met = results.iter().filter(|met| **met).count();
    speech.finish(&format!(
        "Delivered by the demo agent: {met} of {} criteria met, in {where_to}.",
        results.len()
    ))
}
