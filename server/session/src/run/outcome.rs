//! From what the agent said and how it ended to the session's outcome.

use opkit_domain::session::{Outcome, OutputFormat};

use super::events::ResultLine;

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
    /// Calls that succeeded though the guard had not allowed them.
    pub(super) unguarded: u32,
    /// The live line.
    pub(super) activity: String,
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
    let said = result.result.as_deref().or(result.errors.first().map(String::as_str)).unwrap_or("");
    let outcome = outcome_of_error(facts, result, said);
    let known = [
        (Outcome::TurnLimit, "The agent used all its turns"),
        (Outcome::Budget, "The agent used all its money"),
        (Outcome::UsageLimited, "The account's quota is used up"),
        (Outcome::Overloaded, "The provider is overloaded"),
        (Outcome::AuthFailed, "The account's credential was refused"),
    ];
    let why = known
        .iter()
        .find(|(known, _)| *known == outcome)
        .map_or("The agent ended with an error", |(_, why)| why);
    let said = super::clean::plain(said.lines().next().unwrap_or(""), 300);
    (outcome, if said.is_empty() { format!("{why}.") } else { format!("{why}: {said}") })
}

fn outcome_of_error(facts: &Facts, result: &ResultLine, said: &str) -> Outcome {
    let error = facts.error.as_deref().unwrap_or("");
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if result.terminal_reason.as_deref() == Some("max_turns") || result.subtype == "error_max_turns" {
        Outcome::TurnLimit
    } else if result.subtype == "error_max_budget_usd" {
        Outcome::Budget
    } else if facts.quota_refused.is_some() || result.api_error_status == Some(429) || error == "rate_limit" {
        Outcome::UsageLimited
    } else if matches!(result.api_error_status, Some(401 | 403))
        || matches!(error, "authentication_failed" | "billing_error")
        || says(&["Not logged in", "Invalid API key", "Credit balance is too low", "Failed to authenticate"])
    {
        Outcome::AuthFailed
    } else if result.api_error_status == Some(529)
        || matches!(error, "server_error" | "overloaded")
        || says(&["Overloaded", "overloaded"])
    {
        Outcome::Overloaded
    } else {
        Outcome::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5c1e7a2e-0000-4000-8000-000000000000";

    fn outcome(result: serde_json::Value, error: Option<&str>) -> Outcome {
        let facts = Facts {
            results: 1,
            result: serde_json::from_value(result).ok(),
            error: error.map(str::to_owned),
            ..Facts::default()
        };
        classify(&facts, Exit { status: Some(1), signal: None }, OutputFormat::ClaudeStreamJson, ID).0
    }

    #[test]
    fn results_are_read_by_error_flag_and_reason_never_by_subtype_alone() {
        let json = |text: &str| serde_json::from_str(text).expect("json");
        let table = [
            (r#"{"subtype":"success","is_error":false}"#, None, Outcome::Finished),
            (r#"{"subtype":"success","is_error":true}"#, None, Outcome::Failed),
            (
                r#"{"subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns"}"#,
                None,
                Outcome::TurnLimit,
            ),
            (r#"{"subtype":"error_max_budget_usd","is_error":true}"#, None, Outcome::Budget),
            (
                r#"{"subtype":"success","is_error":true,"api_error_status":429}"#,
                Some("rate_limit"),
                Outcome::UsageLimited,
            ),
            (
                r#"{"subtype":"success","is_error":true,"api_error_status":null}"#,
                Some("server_error"),
                Outcome::Overloaded,
            ),
            (r#"{"subtype":"success","is_error":true,"api_error_status":401}"#, None, Outcome::AuthFailed),
            (r#"{"subtype":"success","is_error":true}"#, Some("billing_error"), Outcome::AuthFailed),
            (r#"{"is_error":true,"result":"Not logged in · Please run /login"}"#, None, Outcome::AuthFailed),
            (r#"{"is_error":false,"session_id":"other"}"#, None, Outcome::Failed),
        ];
        for (text, error, expected) in table {
            assert_eq!(outcome(json(text), error), expected, "{text}");
        }
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
