//! The whole attack table against this kernel, and the same attacks without a wall as a control.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use opkit_session::attack::{self, ACCOUNT_GAPS, GAPS, Kernel, Report, Row};

const PROGRAM: &str = env!("CARGO_BIN_EXE_opkit-session");

/// What is refused without a wall too: by the owner of a file, a privilege, the kernel's own rules.
const NOT_IN_CONTROL: &[&str] = &[
    "chmod of the service's file",
    "chown of the service's file",
    "device node",
    "inherited descriptor",
    "open by file number",
    "packet socket",
    "socket by 32-bit call",
    "socket by x32 number",
    "stream pair connected again",
    "utimes of the service's file",
    "wget log",
    "writable mapping of a readable file",
    "write of the running program",
];

fn lines(rows: &[&Row]) -> String {
    rows.iter()
        .map(|row| {
            format!("{} / {}: {:?} {:?} {}\n", row.group, row.name, row.kernel, row.marker, row.message)
        })
        .collect()
}

fn those(report: &Report, what: impl Fn(&Row) -> bool) -> Vec<&Row> {
    report.rows.iter().filter(|row| what(row)).collect()
}

/// Nothing outside, nothing allowed that is not stated, everything of one's own works.
fn check(report: &Report, gaps: &[(&str, &str)]) {
    let markers = those(report, |row| row.marker.is_some() && row.gap.is_none());
    assert!(markers.is_empty(), "outside:\n{}", lines(&markers));
    let broken = those(report, |row| row.own && row.kernel == Kernel::Refused);
    assert!(broken.is_empty(), "own rights that do not work:\n{}", lines(&broken));
    let known: BTreeSet<&str> = gaps.iter().map(|(name, _)| *name).collect();
    let unknown =
        those(report, |row| !row.own && row.kernel == Kernel::Allowed && !known.contains(row.name.as_str()));
    assert!(unknown.is_empty(), "allowed and not a stated gap:\n{}", lines(&unknown));
    let silent = those(report, |row| row.kernel == Kernel::Refused && row.message.is_empty());
    assert!(silent.is_empty(), "refused without a word:\n{}", lines(&silent));
    assert!(report.holds());
    assert_eq!(
        report.rows.len(),
        report.to_table().lines().filter(|line| line.starts_with("| ")).count() - 1
    );
}

#[test]
fn nothing_gets_out_and_everything_of_ones_own_works() {
    let report = attack::run_with(Path::new(PROGRAM), None).expect("the table runs");
    assert!(report.attacks() >= 80, "only {} attacks", report.attacks());
    check(&report, GAPS);
    assert!(those(&report, |row| row.group == "reviewer").len() >= 25);
}

#[test]
fn accounts_with_users_of_their_own_are_closed_to_each_other() {
    let Some(report) = attack::run_accounts_with(Path::new(PROGRAM), None).expect("the table runs") else {
        eprintln!("skipped: only root can try mode os-users");
        return;
    };
    check(&report, ACCOUNT_GAPS);
    assert!(!report.proof.seccomp, "sockets are a right here");
    assert!(those(&report, |row| row.group == "accounts").len() >= 50);
}

#[test]
fn without_a_wall_the_same_attacks_succeed() {
    let report = attack::control(Path::new(PROGRAM), None).expect("the control runs");
    let harmless =
        those(&report, |row| row.kernel == Kernel::Refused && !NOT_IN_CONTROL.contains(&row.name.as_str()));
    assert!(harmless.is_empty(), "these try nothing:\n{}", lines(&harmless));
}

#[test]
fn with_the_slot_s_group_the_other_session_is_open() {
    let Some(report) = attack::control_accounts(Path::new(PROGRAM), None).expect("the control runs") else {
        eprintln!("skipped: only root can try mode os-users");
        return;
    };
    let harmless = those(&report, |row| row.kernel == Kernel::Refused);
    assert!(harmless.is_empty() && report.rows.len() >= 12, "these try nothing:\n{}", lines(&harmless));
}

#[test]
fn the_manual_states_every_gap() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/manual/confinement.md");
    let manual = std::fs::read_to_string(manual).expect("the manual");
    for (name, reason) in GAPS.iter().chain(ACCOUNT_GAPS) {
        assert!(manual.contains(&format!("* **{name}**: {reason}")), "{name}: {reason}");
    }
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    for args in [&["attack", "--nothing"][..], &["attack", "--inside", "nothing"], &["attack", "--dir"]] {
        let output = Command::new(PROGRAM).args(args).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
