//! The demo agent: a scripted program that really edits, tests and commits, and says that it is a demo.

mod brief;
mod checks;
mod review;
mod speech;
mod trouble;
mod work;

use std::io::Read;
use std::process::ExitCode;

use self::brief::Brief;
use self::speech::Speech;

const WORK_SCRIPTS: [&str; 15] = [
    "good",
    "fails-then-good",
    "always-fails",
    "blocked",
    "hangs",
    "crashes",
    "floods",
    "floods-slow",
    "usage-limit",
    "usage-limit-always",
    "writes-outside",
    "slow",
    "asks-nothing",
    "links-artifact",
    "pipes-artifact",
];
const REVIEW_SCRIPTS: [&str; 5] = ["review-errors", "wrong-nonce", "prose", "reviewer-crashes", "good"];

/// What a script leaves with.
type Ending = anyhow::Result<ExitCode>;

/// The `demo-agent` subcommand.
pub(crate) fn main(args: &[&str]) -> ExitCode {
    let began_us = crate::files::now_us();
    let (mut role, mut script) = ("work", "good");
    for pair in args.chunks(2) {
        match pair {
            ["--role", value] => role = value,
            ["--script", value] => script = value,
            other => return usage(&format!("unknown arguments {other:?}")),
        }
    }
    let (name, value) = script.split_once(':').map_or((script, None), |(name, value)| (name, Some(value)));
    let number = match value.map(str::parse::<u64>) {
        None => None,
        Some(Ok(number)) => Some(number),
        Some(Err(_)) => return usage(&format!("the number in {script:?} cannot be read")),
    };
    let known = match role {
        "work" => WORK_SCRIPTS.contains(&name),
        // A work script in a review means that the review is not the test's subject.
        "review" => REVIEW_SCRIPTS.contains(&name) || WORK_SCRIPTS.contains(&name),
        _ => return usage(&format!("unknown role {role:?}")),
    };
    if !known {
        return usage(&format!("unknown script {name:?}"));
    }
    match play(role, name, number, began_us) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("demo agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage(reason: &str) -> ExitCode {
    eprintln!("demo agent: {reason}");
    eprintln!("usage: opkit-session demo-agent --role work|review --script NAME");
    eprintln!("work: {}", WORK_SCRIPTS.join(", "));
    eprintln!("review: {}", REVIEW_SCRIPTS.join(", "));
    ExitCode::from(2)
}

fn play(role: &str, script: &str, number: Option<u64>, began_us: i64) -> Ending {
    let mut context = String::new();
    std::io::stdin().take(16 << 20).read_to_string(&mut context)?;
    let brief = Brief::find(&context)?;
    let mut speech = Speech::begin(began_us)?;
    if role == "review" {
        return review::review(&mut speech, &brief, script);
    }
    speech.say(&format!(
        "Demo agent here: a script, not a model. Objective #{}: {}.",
        brief.objective, brief.title
    ))?;
    match script {
        "fails-then-good" if brief.findings.is_empty() => work::draft(&mut speech, &brief, work::Claim::Met),
        "always-fails" => work::draft(&mut speech, &brief, work::Claim::NotMet),
        "blocked" => trouble::blocked(&mut speech),
        "hangs" => trouble::hangs(&mut speech),
        "crashes" => trouble::crashes(&mut speech),
        "floods" => {
            trouble::floods(&mut speech, number.unwrap_or(50))?;
            work::good(&mut speech, &brief)
        }
        "floods-slow" => {
            trouble::floods_slowly(&mut speech, number.unwrap_or(20))?;
            work::good(&mut speech, &brief)
        }
        "usage-limit" if trouble::limited_before()? => work::good(&mut speech, &brief),
        "usage-limit" | "usage-limit-always" => trouble::usage_limit(&mut speech, number.unwrap_or(90)),
        "writes-outside" => {
            trouble::writes_outside(&mut speech, &brief)?;
            work::good(&mut speech, &brief)
        }
        "slow" => {
            trouble::takes_time(&mut speech, number.unwrap_or(20))?;
            work::good(&mut speech, &brief)
        }
        "links-artifact" => trouble::replaces_artifact(&mut speech, &brief, trouble::Fake::Link),
        "pipes-artifact" => trouble::replaces_artifact(&mut speech, &brief, trouble::Fake::Pipe),
        "asks-nothing" => {
            speech.say("I have read the brief and leave without delivering anything.")?;
            speech.finish("Nothing delivered.")
        }
        _ => work::good(&mut speech, &brief),
    }
}
