//! From what the agent said and how it ended to the session's outcome.

use opkit_domain::session::{Outcome, OutputFormat};

use super::events::ResultLine;
use super::reset;

/// What the agent's output told so far.
#[derive(Default)]
pub(super) struct Facts {
    /// Result lines seen; exactly one is right.
    pub(super) results: u32,
    /// The last one.
    pub(super) result: Option<ResultLine>,
    /// Turns so far: the result's number once there is one.
    pub(super) turns: u32,
    /// Millionths of a dollar.
    pub(super) cost_usd_micros: i64,
    /// The quota refused; the reset in milliseconds since 1970, if it was said.
    pub(super) quota_refused: Option<Option<i64>>,
    /// Which quota that was.
    pub(super) quota_kind: Option<String>,
    /// The last 429 that the agent's CLI waited for.
    pub(super) throttled: Option<Throttle>,
    /// The last `error` of a synthetic assistant message.
    pub(super) error: Option<String>,
    /// The agent's last text.
    pub(super) last_text: String,
    /// The last line on standard error.
    pub(super) last_stderr: String,
    /// Calls the guard denied.
    pub(super) denials: u32,
    /// The last denial.
    pub(super) last_denial: Option<String>,
    /// How often the guard was asked and did not answer.
    pub(super) guard_failures: u32,
    /// The version that the real CLI says it is.
    pub(super) version: Option<String>,
    /// What the guard did that a guard never does, for people: "it left with status 1".
    pub(super) guard_gone: Option<String>,
    /// Calls that succeeded though the guard had not allowed them.
    pub(super) unguarded: u32,
    /// The live line.
    pub(super) activity: String,
}

/// A 429 that the agent's CLI waited for by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Throttle {
    /// How long.
    pub(super) delay_ms: i64,
    /// Until when, milliseconds since 1970.
    pub(super) until_ms: i64,
}

/// A shorter pause is a throttle, a longer one a used-up quota.
const SHORT_MS: i64 = 60_000;
/// A reset further away is a mistake.
const FURTHEST_MS: i64 = 40 * 24 * 3600 * 1000;

impl Facts {
    /// When the account may be used again, as far as anybody said it: by the event, in words with a zone, or by
    /// the pause that was asked for.
    pub(super) fn reset_at(&self, now_ms: i64) -> Option<i64> {
        let said = self.result.as_ref().map(ResultLine::said);
        let asked = self.throttled.filter(|pause| pause.delay_ms >= SHORT_MS).map(|pause| pause.until_ms);
        let stated = [self.quota_refused.flatten(), said.and_then(|said| reset::stated(said, now_ms)), asked];
        stated.into_iter().flatten().find(|at| (now_ms + 1..now_ms + FURTHEST_MS).contains(at))
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) status: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// The outcome and one sentence, when nobody stopped the session.
pub(super) fn classify(facts: &Facts, exit: Exit, format: OutputFormat, session: &str) -> (Outcome, String) {
    match (format, &facts.result) {
        (OutputFormat::Plain, _) if exit.status == Some(0) => {
            (Outcome::Finished, "The agent finished.".to_owned())
        }
        (OutputFormat::Plain, _) | (OutputFormat::ClaudeStreamJson, None) => without_result(facts, exit),
        (OutputFormat::ClaudeStreamJson, Some(result)) => with_result(facts, result, session),
    }
}

fn without_result(facts: &Facts, exit: Exit) -> (Outcome, String) {
    // The CLI turns signals into these statuses; a shell would too.
    let by_status = exit.status.filter(|status| [129, 137, 143].contains(status)).map(|status| status - 128);
    let last = match facts.last_stderr.as_str() {
        "" => String::new(),
        line => format!(" Its last line: {line}"),
    };
    match (exit.signal.or(by_status), exit.status) {
        (Some(signal @ (4 | 6 | 7 | 8 | 11 | 31)), _) => {
            (Outcome::Failed, format!("The agent crashed with signal {signal}.{last}"))
        }
        (Some(signal), _) => (Outcome::Killed, format!("Signal {signal} from outside ended the agent.")),
        (None, Some(0)) => (Outcome::Failed, "The agent left with exit 0 without a result.".to_owned()),
        (None, Some(status)) => {
            (Outcome::Failed, format!("The agent left with exit {status} without a result.{last}"))
        }
        (None, None) => (Outcome::Failed, "The agent's end was not seen.".to_owned()),
    }
}

fn with_result(facts: &Facts, result: &ResultLine, session: &str) -> (Outcome, String) {
    if facts.results > 1 {
        return (Outcome::Failed, format!("The agent gave {} results; exactly one is right.", facts.results));
    }
    if let Some(other) = result.session_id.as_deref().filter(|id| *id != session) {
        let other: String = super::clean::plain(other, 60);
        return (Outcome::Failed, format!("The result belongs to another session ({other})."));
    }
    if !result.is_error {
        return (Outcome::Finished, "The agent finished.".to_owned());
    }
    let (outcome, why) = outcome_of_error(facts, result);
    let said = super::clean::plain(result.said().lines().next().unwrap_or(""), 300);
    (outcome, if said.is_empty() { format!("{why}.") } else { format!("{why}: {said}") })
}

/// What a provider says when money is the limit: a person's cap, or none left.
const MONEY: &[&str] = &[
    "Credit balance is too low",
    "spend limit",
    "spending limit",
    "Spending cap",
    "specified API usage limits",
    "monthly usage limit",
    "out of usage",
    "out of extra usage",
    "usage limit is set to $0",
];
/// A used-up quota in words; with a subscription the event says it too.
const QUOTA: &[&str] = &[
    "hit your limit",
    "hit your session limit",
    "hit your weekly limit",
    "hit your usage limit",
    "hit your org",
    "hour limit reached",
    "weekly limit reached",
    "session limit reached",
    "limit reached|",
    "usage limit",
];
const AUTHENTICATION: &[&str] = &[
    "Not logged in",
    "Please run /login",
    "Invalid API key",
    "Failed to authenticate",
    "OAuth token",
    "organization has been disabled",
];
const TOO_LONG: &[&str] = &["rompt is too long", "exceed context limit", "maximum context length"];
const UNREACHABLE: &[&str] = &[
    "verloaded",
    "Connection error",
    "Unable to connect",
    "ECONNREFUSED",
    "ECONNRESET",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ETIMEDOUT",
    "Request timed out",
    "fetch failed",
];

/// Never by the subtype alone: most failures carry "success" there.
fn outcome_of_error(facts: &Facts, result: &ResultLine) -> (Outcome, &'static str) {
    let error = facts.error.as_deref().unwrap_or("");
    let status = result.api_error_status;
    let said = result.said();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let reason = result.terminal_reason.as_deref().unwrap_or("");
    if reason == "max_turns" || result.subtype == "error_max_turns" {
        (Outcome::TurnLimit, "The agent used all its turns")
    } else if result.subtype == "error_max_budget_usd" {
        (Outcome::Budget, "The agent used all its money")
    } else if reason == "prompt_too_long" || says(TOO_LONG) {
        (Outcome::Failed, "The context is too long for the model")
    } else if error == "billing_error" || says(MONEY) {
        (Outcome::UsageLimited, "The account may spend no more")
    } else if facts.quota_refused.is_some() {
        (Outcome::UsageLimited, "The account's quota is used up")
    } else if status == Some(429) || status.is_none() && error == "rate_limit" {
        match facts.throttled {
            // It was asked to wait a moment and did, and that was not enough: nothing is used up.
            Some(pause) if pause.delay_ms < SHORT_MS && !says(QUOTA) => {
                (Outcome::Overloaded, "The provider throttles this account for a moment")
            }
            _ => (Outcome::UsageLimited, "The account's quota is used up"),
        }
    } else if matches!(status, Some(401 | 403)) || error == "authentication_failed" || says(AUTHENTICATION) {
        (Outcome::AuthFailed, "The account's credential was refused")
    } else if matches!(status, Some(408 | 500..=599))
        || matches!(error, "server_error" | "overloaded")
        || says(UNREACHABLE)
    {
        (Outcome::Overloaded, "The provider is overloaded or cannot be reached")
    } else if status == Some(404) || error == "model_not_found" {
        (Outcome::Failed, "The provider does not know this model")
    } else {
        (Outcome::Failed, "The agent ended with an error")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5c1e7a2e-0000-4000-8000-000000000000";

    fn end(result: &str, error: Option<&str>) -> (Outcome, String) {
        let facts = Facts {
            results: 1,
            result: Some(serde_json::from_str(result).expect("json")),
            error: error.map(str::to_owned),
            ..Facts::default()
        };
        classify(&facts, Exit { status: Some(1), signal: None }, OutputFormat::ClaudeStreamJson, ID)
    }

    #[test]
    fn results_are_read_by_error_flag_and_reason_never_by_subtype_alone() {
        let table = [
            (r#"{"subtype":"success","is_error":false}"#, None, Outcome::Finished),
            (r#"{"subtype":"success","is_error":true}"#, None, Outcome::Failed),
            (
                r#"{"subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns"}"#,
                None,
                Outcome::TurnLimit,
            ),
            (r#"{"subtype":"error_max_budget_usd","is_error":true}"#, None, Outcome::Budget),
            (r#"{"is_error":true,"api_error_status":429}"#, Some("rate_limit"), Outcome::UsageLimited),
            (r#"{"is_error":true,"api_error_status":null}"#, Some("server_error"), Outcome::Overloaded),
            (r#"{"is_error":true,"api_error_status":529}"#, None, Outcome::Overloaded),
            (r#"{"is_error":true,"api_error_status":500}"#, Some("rate_limit"), Outcome::Overloaded),
            (r#"{"is_error":true,"result":"API Error: Connection error."}"#, None, Outcome::Overloaded),
            (r#"{"is_error":true,"api_error_status":401}"#, None, Outcome::AuthFailed),
            (r#"{"is_error":true,"api_error_status":403}"#, None, Outcome::AuthFailed),
            (r#"{"is_error":true,"result":"Not logged in · Please run /login"}"#, None, Outcome::AuthFailed),
            // Money: a cap of the account, not a wrong credential and not the objective's own budget.
            (r#"{"is_error":true,"api_error_status":400}"#, Some("billing_error"), Outcome::UsageLimited),
            (
                r#"{"is_error":true,"result":"You've hit your monthly spend limit."}"#,
                None,
                Outcome::UsageLimited,
            ),
            (r#"{"is_error":true,"api_error_status":404}"#, Some("model_not_found"), Outcome::Failed),
            (r#"{"is_error":true,"api_error_status":400}"#, Some("invalid_request"), Outcome::Failed),
            (r#"{"is_error":false,"session_id":"other"}"#, None, Outcome::Failed),
        ];
        for (text, error, expected) in table {
            assert_eq!(end(text, error).0, expected, "{text}");
        }
    }

    #[test]
    fn a_context_that_is_too_long_is_said_in_words() {
        for text in [
            r#"{"is_error":true,"api_error_status":400,"terminal_reason":"prompt_too_long"}"#,
            r#"{"is_error":true,"result":"API Error: 400 prompt is too long: 210000 tokens > 200000 maximum"}"#,
        ] {
            let (outcome, detail) = end(text, Some("invalid_request"));
            assert_eq!(outcome, Outcome::Failed);
            assert!(detail.starts_with("The context is too long for the model"), "{detail}");
        }
    }

    #[test]
    fn a_throttle_is_no_quota() {
        let now = 1_800_000_000_000;
        let with = |delay_ms, said: &str| {
            let json = serde_json::json!({"is_error": true, "api_error_status": 429, "result": said});
            let facts = Facts {
                results: 1,
                result: serde_json::from_value(json).ok(),
                error: Some("rate_limit".to_owned()),
                throttled: Some(Throttle { delay_ms, until_ms: now + delay_ms }),
                ..Facts::default()
            };
            let exit = Exit { status: Some(1), signal: None };
            let outcome = classify(&facts, exit, OutputFormat::ClaudeStreamJson, ID).0;
            (outcome, facts.reset_at(now))
        };
        let plain = "API Error: Request rejected (429) · Number of requests has exceeded your rate limit";
        assert_eq!(with(5_000, plain), (Outcome::Overloaded, None));
        assert_eq!(with(900_000, plain), (Outcome::UsageLimited, Some(now + 900_000)));
        assert_eq!(with(600, "You've hit your limit").0, Outcome::UsageLimited);
    }

    #[test]
    fn the_event_s_reset_comes_first_and_must_make_sense() {
        let now = 1_800_000_000_000;
        let said = r#"{"is_error":true,"result":"You've hit your limit · resets 2027-01-16 at 00:00 UTC"}"#;
        let in_words = 1_800_057_600_000;
        for (event, expected) in [
            (Some(Some(now + 60_000)), Some(now + 60_000)),
            (Some(Some(now - 60_000)), Some(in_words)),
            (Some(Some(i64::MAX)), Some(in_words)),
            (Some(None), Some(in_words)),
            (None, Some(in_words)),
        ] {
            let result = serde_json::from_str(said).ok();
            let facts = Facts { quota_refused: event, result, ..Facts::default() };
            assert_eq!(facts.reset_at(now), expected, "{event:?}");
        }
        assert_eq!(Facts { quota_refused: Some(None), ..Facts::default() }.reset_at(now), None);
    }

    #[test]
    fn without_a_result_nothing_is_finished() {
        let facts = Facts::default();
        let end =
            |status, signal| classify(&facts, Exit { status, signal }, OutputFormat::ClaudeStreamJson, ID).0;
        assert_eq!(end(Some(0), None), Outcome::Failed);
        assert_eq!(end(Some(7), None), Outcome::Failed);
        assert_eq!(end(Some(143), None), Outcome::Killed);
        assert_eq!(end(None, Some(9)), Outcome::Killed);
        assert_eq!(end(None, Some(6)), Outcome::Failed);
    }

    #[test]
    fn two_results_are_an_error() {
        let facts = Facts { results: 2, result: Some(ResultLine::default()), ..Facts::default() };
        let exit = Exit { status: Some(0), signal: None };
        assert_eq!(classify(&facts, exit, OutputFormat::ClaudeStreamJson, ID).0, Outcome::Failed);
    }
}
