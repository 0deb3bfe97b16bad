//! `test` and `e2e`: everything that is checked by running it, counted.

use crate::steps::{cargo, output_of, program, root, shown, step};
use crate::{Profile, install, server, site};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::AddAssign;
use std::process::{Command, Stdio};

const PACKAGES: [&str; 10] =
    ["-p", "opkit-domain", "-p", "opkit-session", "-p", "opkit-engine", "-p", "opkit", "-p", "opkit-app"];

/// How many tests ran, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Every test there is. The last line is the sum.
pub(crate) fn test() -> i32 {
    conclude(prepare().and_then(|()| {
        let mut sum = step("Rust tests", rust_tests)?;
        sum += step("browser tests", || browser_tests(&[]))?;
        Ok(sum)
    }))
}

/// The browser tests alone, by name if a filter is given.
pub(crate) fn e2e(filter: &[String]) -> i32 {
    conclude(prepare().and_then(|()| step("browser tests", || browser_tests(filter))))
}

fn prepare() -> Result<()> {
    install::server_tools()?;
    install::browser_tools()?;
    server::build_all(Profile::Debug)
}

/// Prints the line that a person and a machine look for, also when it did not come to tests.
fn conclude(sum: Result<Count>) -> i32 {
    let Count { passed, failed, skipped } = sum.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        Count { failed: 1, ..Count::default() }
    });
    if skipped == 0 {
        println!("{passed} passed, {failed} failed");
    } else {
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
    i32::from(failed > 0 || passed == 0)
}

fn rust_tests() -> Result<Count> {
    let mut command = cargo();
    if output_of("cargo", &["nextest", "--version"]).is_some() {
        command.args(["nextest", "run", "--no-fail-fast"]).env("NEXTEST_NO_TESTS", "pass");
    } else {
        command.args(["test", "--no-fail-fast"]);
    }
    command.args(PACKAGES).env("OPKIT_SITE", site::dist());
    counted(&mut command)
}

fn browser_tests(filter: &[String]) -> Result<Count> {
    let mut command = program("node");
    command.arg("end2end/run.mjs").args(filter).current_dir(root());
    command.env("OPKIT_BIN", server::binary("opkit", Profile::Debug)?).env("OPKIT_SITE", site::dist());
    if let Some(chromium) = install::chromium() {
        command.env("OPKIT_CHROMIUM", chromium);
    }
    counted(&mut command)
}

/// Runs a test program, shows what it prints, and sums the summaries it prints. A program that fails without
/// naming a failed test (it did not compile, say) counts as one failure.
fn counted(command: &mut Command) -> Result<Count> {
    let line = shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start: {line}"))?;
    let stderr = child.stderr.take().map(|pipe| std::thread::spawn(move || relay(pipe, std::io::stderr())));
    let mut count = child.stdout.take().map(|pipe| relay(pipe, std::io::stdout())).unwrap_or_default();
    if let Some(thread) = stderr {
        count += thread.join().unwrap_or_default();
    }
    let status = child.wait()?;
    if !status.success() && count.failed == 0 {
        eprintln!("{line} ended with {status}");
        count.failed = 1;
    }
    Ok(count)
}

fn relay(pipe: impl Read, mut to: impl Write) -> Count {
    let mut sum = Count::default();
    // nextest repeats the output of failed tests, closing lines of their own included: its summary alone counts.
    let mut nextest = None;
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line);
        if text.trim_start().starts_with("Summary [") {
            nextest = summary(&text);
        }
        sum += summary(&text).unwrap_or_default();
        if is_plain_count(&text) {
            // Only the sum of all runners stands alone on a line.
            to.write_all(b"browser: ").ok();
        }
        // A closed terminal is no reason to lose count.
        to.write_all(&line).and_then(|()| to.flush()).ok();
        line.clear();
    }
    nextest.unwrap_or(sum)
}

/// Reads the three summaries we know: nextest's, cargo test's, and that of `run.mjs`.
fn summary(line: &str) -> Option<Count> {
    let line = line.trim();
    let counts = if line.starts_with("Summary [") {
        line.split_once(" run: ")?.1
    } else if let Some(result) = line.strip_prefix("test result: ") {
        result.split_once(". ")?.1
    } else if is_plain_count(line) {
        line
    } else {
        return None;
    };
    let mut count = Count::default();
    for part in counts.split([',', ';']) {
        let mut words = part.split_whitespace();
        let (Some(number), Some(what)) = (words.next().and_then(|n| n.parse::<u32>().ok()), words.next())
        else {
            continue;
        };
        match what {
            "passed" => count.passed += number,
            "failed" | "timed" | "exec" => count.failed += number,
            "skipped" | "ignored" => count.skipped += number,
            _ => {}
        }
    }
    Some(count)
}

fn is_plain_count(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" passed, ")
}

#[cfg(test)]
mod tests {
    use super::{Count, summary};

    #[test]
    fn the_summaries_of_all_runners_are_read() {
        let count = |passed, failed, skipped| Some(Count { passed, failed, skipped });
        let nextest =
            "     Summary [  12.345s] 12 tests run: 9 passed (1 slow), 2 failed, 1 timed out, 3 skipped";
        assert_eq!(summary(nextest), count(9, 3, 3));
        assert_eq!(summary("     Summary [   0.004s] 1 test run: 1 passed, 0 skipped"), count(1, 0, 0));
        let libtest = "test result: FAILED. 5 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(summary(libtest), count(5, 1, 2));
        assert_eq!(summary("18 passed, 1 failed"), count(18, 1, 0));
        assert_eq!(summary("18 passed, 0 failed, 2 skipped\n"), count(18, 0, 2));
        assert_eq!(summary("test x ... ok"), None);
    }
}
