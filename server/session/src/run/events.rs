//! Claude Code's stream-json, as far as the runner looks at it. Everything else is skipped, not copied.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The kind of a line, read first.
#[derive(Deserialize, Default)]
pub(super) struct Head<'a> {
    /// "assistant", "user", "system", "result", ...
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    /// "init", "hook_response", "success", ...
    #[serde(default)]
    pub(super) subtype: Option<String>,
}

/// An `assistant` or `user` line.
#[derive(Deserialize)]
pub(super) struct Turn<'a> {
    #[serde(borrow)]
    pub(super) message: Message<'a>,
    /// Inside a subagent.
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
    /// "rate_limit", "authentication_failed", ... of a synthetic message.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// The tool's own result, with the patch of an edit.
    #[serde(borrow, default)]
    pub(super) tool_use_result: Option<&'a RawValue>,
}

/// The message of a turn.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// The content's blocks; bare text is one block.
    pub(super) fn blocks(&self) -> Vec<Block<'a>> {
        let Some(content) = self.content else { return Vec::new() };
        if content.get().starts_with('"') {
            return vec![Block { kind: "text".into(), text: text_of(content), ..Block::default() }];
        }
        serde_json::from_str(content.get()).unwrap_or_default()
    }
}

/// One block of content.
#[derive(Deserialize, Default)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) text: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
}

/// The text of a string, or of the text blocks in a list.
pub(super) fn text_of(raw: &RawValue) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    if raw.get().starts_with('"') {
        return serde_json::from_str(raw.get()).map_or(Cow::Borrowed(""), |Text(text)| text);
    }
    let blocks: Vec<Block<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
    let texts: Vec<&str> =
        blocks.iter().map(|block| block.text.as_ref()).filter(|text| !text.is_empty()).collect();
    Cow::Owned(texts.join("\n"))
}

/// The fields of tool inputs that are shown.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ToolInput {
    pub(super) file_path: String,
    pub(super) notebook_path: String,
    pub(super) content: String,
    pub(super) old_string: String,
    pub(super) new_string: String,
    pub(super) edits: Vec<EditInput>,
    pub(super) command: String,
    pub(super) pattern: String,
    pub(super) path: String,
    pub(super) description: String,
    pub(super) offset: Option<u64>,
    pub(super) limit: Option<u64>,
}

/// One replacement of a MultiEdit.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct EditInput {
    pub(super) old_string: String,
    pub(super) new_string: String,
}

/// A hunk of an edit as the CLI reports it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hunk {
    pub(super) old_start: u64,
    pub(super) new_start: u64,
    pub(super) lines: Vec<String>,
}

/// The part of `tool_use_result` that an edit fills.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Patch {
    pub(super) structured_patch: Vec<Hunk>,
}

/// `system/init`.
#[derive(Deserialize)]
pub(super) struct Init {
    #[serde(default)]
    pub(super) model: Option<String>,
    /// Only the real CLI has it.
    #[serde(default)]
    pub(super) claude_code_version: Option<String>,
    /// Only the demo agent has it.
    #[serde(default)]
    pub(super) agent: Option<String>,
}

/// `system/hook_started`.
#[derive(Deserialize)]
pub(super) struct HookStarted {
    #[serde(default)]
    pub(super) hook_id: String,
    #[serde(default)]
    pub(super) hook_event: String,
}

/// `system/hook_response`.
#[derive(Deserialize)]
pub(super) struct HookResponse {
    #[serde(default)]
    pub(super) hook_id: String,
    #[serde(default)]
    pub(super) hook_event: String,
    #[serde(default)]
    pub(super) hook_name: String,
    #[serde(default)]
    pub(super) stdout: String,
    #[serde(default)]
    pub(super) stderr: String,
    #[serde(default)]
    pub(super) exit_code: Option<i32>,
    #[serde(default)]
    pub(super) outcome: Option<String>,
}

/// What a hook prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HookOutput {
    pub(super) hook_specific_output: HookDecision,
}

/// The decision inside it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HookDecision {
    #[serde(default)]
    pub(super) permission_decision: String,
    #[serde(default)]
    pub(super) permission_decision_reason: String,
}

/// `rate_limit_event`.
#[derive(Deserialize)]
pub(super) struct RateLimitEvent {
    pub(super) rate_limit_info: RateLimit,
}

/// Its content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RateLimit {
    #[serde(default)]
    pub(super) status: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub(super) resets_at: Option<f64>,
    /// Which of several quotas.
    #[serde(default)]
    pub(super) rate_limit_type: Option<String>,
}

/// `system/api_retry`.
#[derive(Deserialize)]
pub(super) struct ApiRetry {
    #[serde(default)]
    pub(super) attempt: u32,
    /// How long the CLI waits: what the provider asked for, or its own short steps.
    #[serde(default)]
    pub(super) retry_delay_ms: Option<f64>,
    #[serde(default)]
    pub(super) error_status: Option<i64>,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// `result`: the agent's last word. A field that is null is read as absent.
#[derive(Debug, Clone, Deserialize, Default)]
pub(super) struct ResultLine {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) subtype: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) is_error: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) api_error_status: Option<i64>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) num_turns: u32,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) total_cost_usd: f64,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) terminal_reason: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) errors: Vec<String>,
}

impl ResultLine {
    /// What it says went wrong.
    pub(super) fn said(&self) -> &str {
        self.result.as_deref().or(self.errors.first().map(String::as_str)).unwrap_or("")
    }
}

/// A field of another type than ours, in a version that we do not know, must not cost the whole line.
fn or_default<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(
    from: D,
) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
