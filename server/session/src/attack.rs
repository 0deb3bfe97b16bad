//! `attack`: tries every known way out of the wall, on ground of its own, and says what held.
//!
//! Each row is one program behind the wall, put there by `enter` as in a real session. The ground is owned by
//! the agents' user and open to everyone, so that file modes stop nothing: what is refused, the wall refused.

mod ground;
mod inside;
pub(crate) mod layout;
mod native_rows;
mod raw;
mod report;
mod roles;
mod shell_rows;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::guard::{self, Call, Decision};
use ground::{Ground, Stage};
pub use report::{Kernel, Report, Row};
use table::{Attack, Goal, Way};

/// What is allowed and known to be: the name of the row and the reason. Everything else that is allowed fails.
pub const GAPS: &[(&str, &str)] = &[
    (
        "chmod",
        "Landlock does not judge modes; only another owner stops it (os-users mode: the slot's group).",
    ),
    ("touch of an old file", "Time stamps are not judged by Landlock."),
    ("utimes", "Time stamps are not judged by Landlock."),
    ("setxattr", "Extended attributes are not judged by Landlock."),
    (
        "chown to the own group",
        "Ownership is not judged by Landlock; it can only be given to groups one has.",
    ),
    ("stat", "Names and metadata can be asked for, one known path at a time; contents and listings cannot."),
    ("inotify watch", "Watching a known path is not judged: events and names are seen, no content."),
    ("command line of a process", "`/proc` is readable: no secret is ever in a command line."),
    (
        "nice of a process",
        "Priorities of processes of the same user can be lowered. os-users mode: other users.",
    ),
    ("tcp to this machine", "Network is not restricted: services that listen must ask for credentials."),
    (
        "shared memory by key",
        "System V memory belongs to the user, and Landlock does not judge it. os-users mode: other users.",
    ),
    ("abstract names in /proc/net/unix", "Names of sockets can be listed; none can be reached."),
    ("userfaultfd", "Of its own memory only; the kernel's own faults need a privilege."),
];

/// The same for mode os-users. What is allowed in mode homes only because all sessions share a user is not here.
pub const ACCOUNT_GAPS: &[(&str, &str)] = &[
    ("command line of a process", "`/proc` is readable: no secret is ever in a command line."),
    ("nice of a process", "Priorities of processes of the same account can be lowered."),
    ("tcp to this machine", "Network is not restricted: services that listen must ask for credentials."),
    (
        "shared memory by key",
        "System V memory belongs to the account, and Landlock does not judge it: sessions of one account share it.",
    ),
    ("abstract names in /proc/net/unix", "Names of sockets can be listed; none can be reached."),
    ("userfaultfd", "Of its own memory only; the kernel's own faults need a privilege."),
    (
        "socket that everybody may connect to",
        "Landlock judges connecting from version 9 on. Before, a socket open to every user of the machine (the \
         system bus, say) can be reached; those of Opkit are in closed directories.",
    ),
];

/// The `attack` subcommand.
pub(crate) fn main(args: &[&str]) -> ExitCode {
    if let ["--inside", name, rest @ ..] = args {
        return inside::main(name, rest.first().copied().unwrap_or_default());
    }
    let (mut json, mut dir, mut rest) = (false, None, args);
    loop {
        match rest {
            [] => break,
            ["--json", tail @ ..] => (json, rest) = (true, tail),
            ["--table", tail @ ..] => (json, rest) = (false, tail),
            ["--dir", path, tail @ ..] => (dir, rest) = (Some(PathBuf::from(path)), tail),
            [other, ..] => {
                eprintln!("opkit-session attack: unknown argument {other:?}");
                return ExitCode::from(2);
            }
        }
    }
    let program = std::env::current_exe().context("this program's own path");
    let dir = dir.as_deref();
    match program.and_then(|program| Ok((run_with(&program, dir)?, run_accounts_with(&program, dir)?))) {
        Ok((homes, accounts)) => {
            print!(
                "{}",
                if json {
                    report::to_json(&homes, accounts.as_ref())
                } else {
                    report::to_text(&homes, accounts.as_ref())
                }
            );
            let holds = homes.holds() && accounts.is_none_or(|report| report.holds());
            if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("opkit-session attack: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the whole table of mode homes with `program`, an `opkit-session`: a worker's attacks, then a reviewer's.
/// The ground is made below `dir` (else the directory for temporary files) and removed.
pub fn run_with(program: &Path, dir: Option<&Path>) -> anyhow::Result<Report> {
    run_stages(program, dir, true, &[Stage::Homes, Stage::Review], |_| true)
}

/// The same for mode os-users: two accounts with users of their own, slots with groups. Only root can try it.
pub fn run_accounts_with(program: &Path, dir: Option<&Path>) -> anyhow::Result<Option<Report>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    run_stages(program, dir, true, &[Stage::Accounts], |_| true).map(Some)
}

/// The families that harm nothing but the ground, without a wall: every row must leave its marker. It shows that
/// the table tries what it says.
pub fn control(program: &Path, dir: Option<&Path>) -> anyhow::Result<Report> {
    let harmless = ["shell", "programs", "reads", "files", "sockets", "reviewer"];
    run_stages(program, dir, false, &[Stage::Homes, Stage::Review], |attack| {
        attack.goal == Goal::Own || harmless.contains(&attack.group)
    })
}

/// What only the slot's group refuses, by a session that has the group: every row must succeed.
pub fn control_accounts(program: &Path, dir: Option<&Path>) -> anyhow::Result<Option<Report>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let mine = |attack: &Attack| attack.name.starts_with("other session: ");
    run_stages(program, dir, false, &[Stage::AccountsOpen], mine).map(Some)
}

fn run_stages(
    program: &Path,
    dir: Option<&Path>,
    walled: bool,
    stages: &[Stage],
    wanted: impl Fn(&Attack) -> bool,
) -> anyhow::Result<Report> {
    let (mut rows, mut proof) = (Vec::new(), None);
    for stage in stages {
        let mut ground = Ground::new(program, dir, walled, *stage)?;
        for attack in table::all(*stage).iter().filter(|attack| wanted(attack)) {
            rows.push(row(&mut ground, rows.len() + 1, attack)?);
        }
        // The first stage's: a worker's.
        proof = proof.or_else(|| ground.proof().cloned());
    }
    Ok(Report { proof: proof.context("nothing ran behind the wall")?, rows })
}

fn row(ground: &mut Ground, number: usize, attack: &Attack) -> anyhow::Result<Row> {
    let way = match attack.way {
        Way::Shell(script) => ground.fill(script),
        Way::Native(name, arg) => format!("{name} {}", ground.fill(arg)).trim_end().to_owned(),
    };
    let gaps = if ground.has_owners() { ACCOUNT_GAPS } else { GAPS };
    let gap = gaps.iter().find(|(name, _)| *name == attack.name).map(|(_, reason)| (*reason).to_owned());
    let mut row = Row {
        number,
        group: attack.group.to_owned(),
        name: attack.name.to_owned(),
        own: attack.goal == Goal::Own,
        hook: hook(ground, attack, &way),
        way,
        kernel: Kernel::Skipped,
        marker: None,
        message: String::new(),
        gap,
    };
    if let Some(missing) = attack.needs.split(' ').find(|need| !need.is_empty() && !ground.has(need)) {
        row.message = format!("{missing} is not there");
        return Ok(row);
    }
    let argv = match attack.way {
        Way::Shell(_) => vec!["/bin/sh".to_owned(), "-c".to_owned(), row.way.clone()],
        Way::Native(name, arg) => ground.native(name, arg),
    };
    let before = ground.look();
    let ran = ground.run(argv)?;
    row.message = ground.shorten(&ran.last_line());
    let evidence = ground.evidence(&before, &ran, attack.goal);
    row.kernel = match attack.goal {
        Goal::Own | Goal::Answer if ran.succeeded() => Kernel::Allowed,
        _ if evidence.is_some() => Kernel::Allowed,
        Goal::Own | Goal::Answer | Goal::Outside => Kernel::Refused,
    };
    row.marker = evidence;
    row.way = ground.shorten(&row.way);
    Ok(row)
}

/// What the guard says to the same thing as a tool call, where an agent could make it.
fn hook(ground: &Ground, attack: &Attack, way: &str) -> Option<bool> {
    let policy = ground.policy();
    let call = match (attack.way, attack.goal) {
        (Way::Shell(_), _) => Call { tool: "Bash", command: Some(way), ..Call::default() },
        (Way::Native("create" | "truncating open", arg), _) => {
            let path = ground.fill(arg);
            let call = Call { tool: "Write", path: Some(&path), ..Call::default() };
            return Some(guard::decide(&policy, &call) == Decision::Allow);
        }
        (Way::Native(_, _), _) => return None,
    };
    Some(guard::decide(&policy, &call) == Decision::Allow)
}
