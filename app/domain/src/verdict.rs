//! VERDICT.json: its schema and the checks that make everything else a review error.

use serde::{Deserialize, Serialize};

use crate::ids::{ObjectiveId, SessionId, words};

words!(
    /// What the reviewer decided.
    Decision {
        /// Every criterion is met.
        Pass = "pass",
        /// At least one is not.
        Fail = "fail",
        /// The reviewer cannot judge without a person.
        Blocked = "blocked",
    }
);

words!(
    /// A criterion's result.
    CriterionStatus {
        /// Met, with evidence.
        Met = "met",
        /// Not met.
        NotMet = "not_met",
        /// Could not be judged.
        Unclear = "unclear",
    }
);

words!(
    /// How bad a finding is.
    Severity {
        /// Cannot be accepted.
        Blocker = "blocker",
        /// Must be mended.
        Major = "major",
        /// Worth mending.
        Minor = "minor",
    }
);

/// One criterion's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriterionResult {
    /// Index of the criterion, from 0.
    pub index: usize,
    /// The result.
    pub status: CriterionStatus,
    /// How bad, when not met.
    #[serde(default)]
    pub severity: Option<Severity>,
    /// Where it can be seen.
    #[serde(default)]
    pub evidence: String,
    /// What the criterion asks.
    #[serde(default)]
    pub expected: String,
    /// What was found.
    #[serde(default)]
    pub actual: String,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// The finding, for the next session and for people.
    pub text: String,
    /// The criterion it belongs to.
    #[serde(default)]
    pub criterion: Option<usize>,
}

/// The whole verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The objective it is about.
    pub objective: ObjectiveId,
    /// The reviewing session.
    pub session: SessionId,
    /// The commit that was graded.
    pub commit: String,
    /// The secret of this review.
    pub nonce: String,
    /// The decision.
    pub verdict: Decision,
    /// One result for every criterion.
    pub criteria: Vec<CriterionResult>,
    /// Findings.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// A few sentences.
    #[serde(default)]
    pub summary: String,
}

/// What a verdict must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The objective under review.
    pub objective: ObjectiveId,
    /// The reviewing session.
    pub session: SessionId,
    /// The delivered commit.
    pub commit: String,
    /// The nonce of this review.
    pub nonce: String,
    /// Number of locked criteria.
    pub criteria: usize,
}

/// A verdict that does not count, with the reason for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAVerdict(pub String);

/// Reads and checks a verdict. Anything but a complete, consistent one for this very review is refused.
pub fn read(bytes: &[u8], expected: &Expected) -> Result<Verdict, NotAVerdict> {
    let refuse = |why: String| Err(NotAVerdict(why));
    let verdict: Verdict = match serde_json::from_slice(bytes) {
        Ok(verdict) => verdict,
        Err(error) => return refuse(format!("VERDICT.json does not follow the schema: {error}")),
    };
    if verdict.objective != expected.objective {
        return refuse(format!("The verdict is about #{}, not #{}.", verdict.objective, expected.objective));
    }
    if verdict.session != expected.session {
        return refuse("The verdict names another session.".into());
    }
    if verdict.commit != expected.commit {
        return refuse("The verdict names another commit than the delivered one.".into());
    }
    if verdict.nonce != expected.nonce {
        return refuse("The verdict carries a wrong nonce.".into());
    }
    let mut seen = vec![false; expected.criteria];
    for result in &verdict.criteria {
        match seen.get_mut(result.index) {
            None => return refuse(format!("Criterion {} does not exist.", result.index + 1)),
            Some(true) => return refuse(format!("Criterion {} is judged twice.", result.index + 1)),
            Some(slot) => *slot = true,
        }
    }
    if let Some(missing) = seen.iter().position(|judged| !judged) {
        return refuse(format!("Criterion {} is not judged.", missing + 1));
    }
    let all_met = verdict.criteria.iter().all(|result| result.status == CriterionStatus::Met);
    let blocking = verdict.findings.iter().any(|finding| finding.severity != Severity::Minor);
    match verdict.verdict {
        Decision::Pass if !all_met => refuse("The verdict says pass, but not every criterion is met.".into()),
        Decision::Pass if blocking => {
            refuse("The verdict says pass, but it has findings that must be mended.".into())
        }
        Decision::Pass if verdict.criteria.iter().any(|result| result.evidence.trim().is_empty()) => {
            refuse("The verdict says pass, but a criterion has no evidence.".into())
        }
        Decision::Fail if all_met && !blocking => {
            refuse("The verdict says fail, but names nothing that is not met.".into())
        }
        Decision::Pass | Decision::Fail | Decision::Blocked => Ok(verdict),
    }
}

impl Verdict {
    /// What the next session must read first: one line for each thing that is not met.
    pub fn finding_lines(&self) -> Vec<String> {
        let criteria =
            self.criteria.iter().filter(|result| result.status != CriterionStatus::Met).map(|result| {
                let mut line = format!("Criterion {} is not met.", result.index + 1);
                for (word, text) in [
                    ("Expected", &result.expected),
                    ("Found", &result.actual),
                    ("Evidence", &result.evidence),
                ] {
                    if !text.trim().is_empty() {
                        line.push_str(&format!(" {word}: {}.", text.trim().trim_end_matches('.')));
                    }
                }
                line
            });
        let findings = self.findings.iter().map(|finding| format!("{}: {}", finding.severity, finding.text));
        criteria.chain(findings).collect()
    }
}
