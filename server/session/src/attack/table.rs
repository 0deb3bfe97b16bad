//! The rows: what is tried, family by family, and the rights that must stay.

use super::ground::Stage;
use super::native_rows::{
    FILE_ANSWERS, FILES, NATIVE_OWN, NATIVE_RIGHTS, PROCESS_ANSWERS, PROCESSES, RIGHT_ANSWERS,
    SOCKET_ANSWERS, SOCKETS,
};
use super::roles::{
    ACCOUNT_ANSWERS, ACCOUNT_CALLS, ACCOUNT_GAPS, ACCOUNT_OWN, ACCOUNT_SHELL, REVIEW, REVIEW_ANSWERS,
    REVIEW_OWN, RIGHTS_OF_ACCOUNTS, SIBLING_ANSWERS,
};
use super::shell_rows::{DAEMONS, GIT, METADATA, OWN, OWN_AFTER, PLACES, PROGRAMS, READS, RIGHTS, SHELL};

/// How a row is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A shell command, as a Bash tool call would run it.
    Shell(&'static str),
    /// System calls of this program itself: the name and its argument.
    Native(&'static str, &'static str),
}

/// How a row is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Something outside is changed, read, reached or ended; the ground shows whether.
    Outside,
    /// The status says whether the kernel allowed it.
    Answer,
    /// The session's own right: must work.
    Own,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attack {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) goal: Goal,
    /// Programs it needs, with a space between.
    pub(super) needs: &'static str,
    pub(super) way: Way,
}

/// Every row of a stage in the order in which they run.
pub(super) fn all(stage: Stage) -> Vec<Attack> {
    match stage {
        Stage::Homes => homes(),
        Stage::Review => review(),
        Stage::Accounts | Stage::AccountsOpen => accounts(),
    }
}

fn shell(group: &'static str, goal: Goal, table: Shell) -> impl Iterator<Item = Attack> {
    table.iter().map(move |&(name, needs, script)| Attack {
        group,
        name,
        goal,
        needs,
        way: Way::Shell(script),
    })
}

fn native(group: &'static str, goal: Goal, table: Native) -> impl Iterator<Item = Attack> {
    table.iter().map(move |&(name, needs, call, arg)| Attack {
        group,
        name,
        goal,
        needs,
        way: Way::Native(call, arg),
    })
}

fn homes() -> Vec<Attack> {
    let mut rows: Vec<Attack> = shell("own", Goal::Own, OWN).collect();
    rows.extend(shell("shell", Goal::Outside, SHELL));
    rows.extend(shell("programs", Goal::Outside, PROGRAMS));
    rows.extend(shell("git", Goal::Outside, GIT));
    rows.extend(shell("places", Goal::Outside, PLACES));
    rows.extend(shell("reads", Goal::Outside, READS));
    rows.extend(shell("daemons", Goal::Outside, DAEMONS));
    rows.extend(shell("rights", Goal::Answer, RIGHTS));
    rows.extend(shell("gaps", Goal::Answer, METADATA));
    rows.extend(native("files", Goal::Outside, FILES));
    rows.extend(native("files", Goal::Answer, FILE_ANSWERS));
    rows.extend(native("processes", Goal::Outside, PROCESSES));
    rows.extend(native("processes", Goal::Answer, PROCESS_ANSWERS));
    rows.extend(native("sockets", Goal::Outside, SOCKETS));
    rows.extend(native("sockets", Goal::Answer, SOCKET_ANSWERS));
    rows.extend(native("rights", Goal::Outside, NATIVE_RIGHTS));
    rows.extend(native("rights", Goal::Answer, RIGHT_ANSWERS));
    rows.extend(native("own", Goal::Own, NATIVE_OWN));
    rows.extend(shell("own", Goal::Own, OWN_AFTER));
    rows
}

fn review() -> Vec<Attack> {
    let mut rows: Vec<Attack> = shell("own", Goal::Own, REVIEW_OWN).collect();
    rows.extend(shell("reviewer", Goal::Outside, REVIEW));
    rows.extend(shell("reviewer", Goal::Answer, REVIEW_ANSWERS));
    rows
}

fn accounts() -> Vec<Attack> {
    let mut rows = homes();
    rows.retain(|row| !RIGHTS_OF_ACCOUNTS.contains(&row.name));
    rows.extend(shell("accounts", Goal::Outside, ACCOUNT_SHELL));
    rows.extend(native("accounts", Goal::Outside, ACCOUNT_CALLS));
    rows.extend(native("accounts", Goal::Answer, SIBLING_ANSWERS));
    rows.extend(native("accounts", Goal::Answer, ACCOUNT_ANSWERS));
    rows.extend(native("accounts", Goal::Answer, ACCOUNT_GAPS));
    rows.extend(native("own", Goal::Own, ACCOUNT_OWN));
    rows
}

/// Name, needs, script.
pub(super) type Shell = &'static [(&'static str, &'static str, &'static str)];
/// Name, needs, call, argument.
pub(super) type Native = &'static [(&'static str, &'static str, &'static str, &'static str)];
