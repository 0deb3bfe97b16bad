//! What a session leaves outside of its process tree, and trees that are never seen whole.

#[path = "support/place.rs"]
mod place;

use std::fs::{self, OpenOptions};
use std::path::Path;

use opkit_domain::session::{Outcome, OutputFormat, files};
use place::{Place, wait_until};

#[test]
fn a_pipe_that_somebody_else_holds_keeps_no_session() {
    let mut place = Place::new("good");
    place.agent_script(
        "echo $$ > \"$OPKIT_SCRATCH/pid\"; until [ -e \"$OPKIT_SCRATCH/go\" ]; do sleep 0.01; done; echo done",
        OutputFormat::Plain,
    );
    let scratch = place.root().join("work/42/scratch");
    let mut runner = place.start();
    let mut pid = String::new();
    wait_until("the agent runs", || {
        pid = fs::read_to_string(scratch.join("pid")).unwrap_or_default();
        pid.ends_with('\n')
    });
    // A service of the machine that the agent handed its output to, say: no part of the session, and alive after it.
    let theirs = format!("/proc/{}/fd/1", pid.trim());
    let held = OpenOptions::new().write(true).open(theirs).expect("the agent's output");
    fs::write(scratch.join("go"), "").expect("a file");
    wait_until("the runner gives the pipe up", || runner.try_wait().expect("a runner").is_some());
    assert_eq!(place.exit().outcome, Outcome::Finished, "{}", place.exit().detail);
    drop(held);
}

#[test]
fn a_runner_whose_directory_is_gone_leaves_with_everything_of_it() {
    let place = Place::new("hangs");
    let mut runner = place.start();
    wait_until("the agent runs", || place.session().join(files::PROOF).exists());
    fs::remove_dir_all(place.session()).expect("removed");
    // Nobody will ever read an exit file there.
    wait_until("the runner leaves", || runner.try_wait().expect("a runner").is_some());
    assert_eq!(alive(&place.root()), 0);
}

/// Processes that carry this place in their environment.
fn alive(root: &Path) -> usize {
    let root = root.to_string_lossy().into_owned();
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let environments = processes.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments.filter(|text| String::from_utf8_lossy(text).contains(&root)).count()
}

#[test]
fn a_chain_of_processes_that_fork_and_leave_is_broken() {
    let mut place = Place::new("good");
    // Eight of them, each link as short as a program can make it.
    let chain = "fork or last for 1..7; while (1) { if (++$n == 100) { open my $f, \">\", \"$ENV{OPKIT_SCRATCH}/runs\" } fork and exit }";
    let script = format!(
        "setsid perl -e '{chain}' >/dev/null 2>&1 & \
         until [ -e \"$OPKIT_SCRATCH/runs\" ]; do sleep 0.01; done; echo done"
    );
    place.agent_script(&script, OutputFormat::Plain);
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Finished, "{}\n{}", exit.detail, place.record());
    assert!(!exit.detail.contains("could not be killed"), "{}", exit.detail);
    // A link lives for less than a millisecond: one look could miss it.
    assert_eq!((0..20).map(|_| alive(&place.root())).sum::<usize>(), 0);
}
