//! Our icons: one sheet of symbols in the page, used by name. 16 px grid, 1.5 px stroke.

use leptos::prelude::*;
use opkit_domain::objective::{Kind, Status};
use opkit_domain::session::Role;

/// The mark of a file, for HTML that is written as text.
#[cfg(feature = "ssr")]
pub const SVG_FILE: &str = "<svg class=\"i i-14\" aria-hidden=\"true\"><use href=\"#i-file\"></use></svg>";

/// The sheet; it stands once at the top of the body.
const SHEET: &str = r##"<svg width="0" height="0" aria-hidden="true"><defs>
<symbol id="i-mark" viewBox="0 0 16 16"><path d="M2.75 2.75h2.5v10.5h-2.5z" fill="currentColor"/><path d="M6.75 2.75h2.5v6.5h-2.5z" fill="currentColor"/><path d="M10.75 2.75h2.5v3.5h-2.5z"/></symbol>
<symbol id="i-board" viewBox="0 0 16 16"><path d="M2.75 3.25h2.5v9.5h-2.5zM6.75 3.25h2.5v5.5h-2.5zM10.75 3.25h2.5v7.5h-2.5z"/></symbol>
<symbol id="i-inbox" viewBox="0 0 16 16"><path d="M2.75 9.25 4.5 3.25h7l1.75 6v3.5H2.75zM2.75 9.25h3l.75 1.5h3l.75-1.5h3"/></symbol>
<symbol id="i-term" viewBox="0 0 16 16"><path d="M2.25 3.25h11.5v9.5H2.25zM4.75 6.25 6.5 8 4.75 9.75M8.25 10h3"/></symbol>
<symbol id="i-play" viewBox="0 0 16 16"><path d="M5.25 3.25v9.5L12.75 8z"/></symbol>
<symbol id="i-launch" viewBox="0 0 16 16"><path d="M13.25 2.75 2.75 6.75l4.5 2 2 4.5zM7.25 8.75l2.5-2.5"/></symbol>
<symbol id="i-users" viewBox="0 0 16 16"><circle cx="6" cy="5" r="2.25"/><path d="M2.25 13.25c0-2.2 1.6-3.5 3.75-3.5s3.75 1.3 3.75 3.5M10.75 2.9a2.25 2.25 0 0 1 0 4.2M11.75 10c1.25.5 2 1.6 2 3.25"/></symbol>
<symbol id="i-repo" viewBox="0 0 16 16"><path d="M3.75 12.25v-8.5a1 1 0 0 1 1-1h7.5v8.5h-7.5a1 1 0 0 0 0 2h7.5v-2M6.25 5.5h3.5"/></symbol>
<symbol id="i-health" viewBox="0 0 16 16"><path d="M1.75 8.25H4.5L6.25 4l3 8.25L11 8.25h3.25"/></symbol>
<symbol id="i-sliders" viewBox="0 0 16 16"><path d="M2.75 4.75h6M11.75 4.75h1.5M2.75 11.25h1.5M7.25 11.25h6"/><circle cx="10.25" cy="4.75" r="1.5"/><circle cx="5.75" cy="11.25" r="1.5"/></symbol>
<symbol id="i-search" viewBox="0 0 16 16"><circle cx="7" cy="7" r="4.25"/><path d="M10.25 10.25 13.5 13.5"/></symbol>
<symbol id="i-down" viewBox="0 0 16 16"><path d="M4.5 6.25 8 9.75l3.5-3.5"/></symbol>
<symbol id="i-right" viewBox="0 0 16 16"><path d="M6.25 4.5 9.75 8l-3.5 3.5"/></symbol>
<symbol id="i-updown" viewBox="0 0 16 16"><path d="M5 6.25 8 3.25l3 3M5 9.75l3 3 3-3"/></symbol>
<symbol id="i-plus" viewBox="0 0 16 16"><path d="M8 3.25v9.5M3.25 8h9.5"/></symbol>
<symbol id="i-x" viewBox="0 0 16 16"><path d="M4 4l8 8M12 4l-8 8"/></symbol>
<symbol id="i-power" viewBox="0 0 16 16"><path d="M8 2.5v5M4.75 4.4a4.75 4.75 0 1 0 6.5 0"/></symbol>
<symbol id="i-pause" viewBox="0 0 16 16"><path d="M5.75 3.75v8.5M10.25 3.75v8.5"/></symbol>
<symbol id="i-link" viewBox="0 0 16 16"><path d="M6.5 9.5l3-3M7.25 4.75l1.1-1.1a2.83 2.83 0 0 1 4 4l-1.1 1.1M8.75 11.25l-1.1 1.1a2.83 2.83 0 0 1-4-4l1.1-1.1"/></symbol>
<symbol id="i-clock" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.25"/><path d="M8 5v3.25l2 1.25"/></symbol>
<symbol id="i-shield" viewBox="0 0 16 16"><path d="M8 2.25 3.25 4v3.75c0 3 2 5 4.75 6 2.75-1 4.75-3 4.75-6V4zM5.75 8 7.25 9.5l3-3"/></symbol>
<symbol id="i-filter" viewBox="0 0 16 16"><path d="M2.75 4h10.5M4.75 8h6.5M6.75 12h2.5"/></symbol>
<symbol id="i-tree" viewBox="0 0 16 16"><path d="M3.75 2.75v8.5h4M3.75 6.25h4M8.25 4.5h5v3.5h-5zM8.25 9.5h5V13h-5z"/></symbol>
<symbol id="i-bolt" viewBox="0 0 16 16"><path d="M8.75 2 3.75 9h3.5l-.5 5 5-7h-3.5z"/></symbol>
<symbol id="i-t-task" viewBox="0 0 16 16"><path d="M3.25 3.25h9.5v9.5h-9.5zM5.5 8.25 7.25 10l3.25-3.75"/></symbol>
<symbol id="i-t-bug" viewBox="0 0 16 16"><path d="M5 8.25a3 3 0 0 1 6 0v1.5a3 3 0 0 1-6 0zM6.25 5.5a1.75 1.75 0 0 1 3.5 0M5 9H2.5M13.5 9H11M5.25 6.75 3.25 5M10.75 6.75 12.75 5M5.5 11.5l-2 1.75M10.5 11.5l2 1.75"/></symbol>
<symbol id="i-t-project" viewBox="0 0 16 16"><path d="M8 2.5 13.5 5.5 8 8.5 2.5 5.5zM2.5 8.25 8 11.25l5.5-3M2.5 11 8 14l5.5-3"/></symbol>
<symbol id="i-s-queue" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.25"/></symbol>
<symbol id="i-s-planning" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.25" stroke-dasharray="2.5 1.62" stroke-linecap="butt"/></symbol>
<symbol id="i-s-working" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.25"/><path d="M8 5.25a2.75 2.75 0 0 1 0 5.5z" fill="currentColor" stroke="none"/><path d="M8 4.75v6.5a3.25 3.25 0 0 0 0-6.5z" fill="currentColor" stroke="none"/></symbol>
<symbol id="i-s-review" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.25"/><circle cx="8" cy="8" r="2" fill="currentColor" stroke="none"/></symbol>
<symbol id="i-s-needs" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="currentColor" stroke="none"/><path d="M8 5v3.25M8 10.9v.01" stroke="var(--on-needs)"/></symbol>
<symbol id="i-s-done" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="currentColor" stroke="none"/><path d="M5.4 8.2 7.2 10l3.4-3.9" stroke="var(--surface)"/></symbol>
<symbol id="i-s-cancelled" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.25"/><path d="M4.5 11.5l7-7"/></symbol>
<symbol id="i-s-failed" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="currentColor" stroke="none"/><path d="M5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2" stroke="var(--surface)"/></symbol>
<symbol id="i-up" viewBox="0 0 16 16"><path d="M4.5 9.75 8 6.25l3.5 3.5"/></symbol>
<symbol id="i-msg" viewBox="0 0 16 16"><path d="M2.75 3.25h10.5v7.5H7.5l-2.75 2.5v-2.5h-2z"/></symbol>
<symbol id="i-file" viewBox="0 0 16 16"><path d="M4.25 2.25h5l2.5 2.75v8.75h-7.5zM9 2.5v2.75h2.5"/></symbol>
<symbol id="i-info" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.25"/><path d="M8 7.5v3.25M8 5.25v.01"/></symbol>
<symbol id="i-lock" viewBox="0 0 16 16"><path d="M4.25 7.25h7.5v6h-7.5zM5.75 7.25V5a2.25 2.25 0 0 1 4.5 0v2.25"/></symbol>
<symbol id="i-eye" viewBox="0 0 16 16"><path d="M1.75 8C3.25 5.25 5.5 4 8 4s4.75 1.25 6.25 4c-1.5 2.75-3.75 4-6.25 4S3.25 10.75 1.75 8z"/><circle cx="8" cy="8" r="1.75"/></symbol>
<symbol id="i-dots" viewBox="0 0 16 16"><path d="M3.75 8v.01M8 8v.01M12.25 8v.01"/></symbol>
<symbol id="i-refresh" viewBox="0 0 16 16"><path d="M13 8a5 5 0 1 1-1.6-3.65M13 2.75v2.5h-2.5"/></symbol>
<symbol id="i-minus" viewBox="0 0 16 16"><path d="M3.5 8h9"/></symbol>
<symbol id="i-stop" viewBox="0 0 16 16"><path d="M4.25 4.25h7.5v7.5h-7.5z"/></symbol>
<symbol id="i-copy" viewBox="0 0 16 16"><path d="M6.25 6.25h7v7h-7zM4 9.75H2.75v-7h7V4"/></symbol>
<symbol id="i-dl" viewBox="0 0 16 16"><path d="M8 2.75v7M5 7l3 3 3-3M3 13.25h10"/></symbol>
<symbol id="i-left" viewBox="0 0 16 16"><path d="M9.75 4.5 6.25 8l3.5 3.5"/></symbol>
<symbol id="i-check" viewBox="0 0 16 16"><path d="M3.25 8.5 6.5 11.75 12.75 4.5"/></symbol>
<symbol id="i-send" viewBox="0 0 16 16"><path d="M8 13V3.5M4 7.25 8 3.25l4 4"/></symbol>
<symbol id="i-edit" viewBox="0 0 16 16"><path d="M3 13l.5-2.75L10.75 3 13 5.25 5.75 12.5z"/></symbol>
<symbol id="i-offline" viewBox="0 0 16 16"><path d="M2.25 2.25l11.5 11.5M2 6.5A8.5 8.5 0 0 1 4.75 4.7M7.25 4A8.5 8.5 0 0 1 14 6.5M4.25 9A5.3 5.3 0 0 1 6.5 7.75M8 12v.01"/></symbol>
<symbol id="i-undo" viewBox="0 0 16 16"><path d="M3 6.25h6.5a3.25 3.25 0 0 1 0 6.5H6M5.5 3.5 2.75 6.25 5.5 9"/></symbol>
<symbol id="i-sun" viewBox="0 0 16 16"><circle cx="8" cy="8" r="2.75"/><path d="M8 1.75v1.5M8 12.75v1.5M1.75 8h1.5M12.75 8h1.5M3.6 3.6l1.05 1.05M11.35 11.35l1.05 1.05M3.6 12.4l1.05-1.05M11.35 4.65l1.05-1.05"/></symbol>
<symbol id="i-exit" viewBox="0 0 16 16"><path d="M6.25 13.25h-3.5v-10.5h3.5M6.5 8h7M10.75 5.25 13.5 8l-2.75 2.75"/></symbol>
<symbol id="i-move" viewBox="0 0 16 16"><path d="M2.75 8h8.5M8.25 4.75 11.5 8l-3.25 3.25M13.5 3.25v9.5"/></symbol>
</defs></svg>"##;

/// The symbols that every icon refers to.
#[component]
pub fn IconSheet() -> impl IntoView {
    view! { <div class="sheet-of-icons" aria-hidden="true" inner_html=SHEET></div> }
}

/// An icon, 16 px.
pub fn icon(name: &'static str) -> AnyView {
    drawn("i", name)
}

/// An icon, 14 px.
pub fn icon14(name: &'static str) -> AnyView {
    drawn("i i-14", name)
}

/// An icon, 12 px.
pub fn icon12(name: &'static str) -> AnyView {
    drawn("i i-12", name)
}

/// An icon with classes of its own.
pub fn drawn(class: &'static str, name: &'static str) -> AnyView {
    view! {
        <svg class=class aria-hidden="true">
            <use href=format!("#i-{name}")></use>
        </svg>
    }
    .into_any()
}

/// The mark of a status: shape and colour.
pub fn status_mark(status: Status) -> AnyView {
    match status {
        Status::Planning => drawn("st c-planning", "s-planning"),
        Status::Queue => drawn("st c-queue", "s-queue"),
        Status::Working => drawn("st c-working", "s-working"),
        Status::AiReview => drawn("st c-review", "s-review"),
        Status::HumanReview => drawn("st c-needs", "s-needs"),
        Status::Done => drawn("st c-done", "s-done"),
        Status::Cancelled => drawn("st c-queue", "s-cancelled"),
    }
}

/// The mark of a role: that of the status it works in.
pub fn role_mark(role: Role) -> AnyView {
    match role {
        Role::Plan => status_mark(Status::Planning),
        Role::Work | Role::Delegate => status_mark(Status::Working),
        Role::Review => status_mark(Status::AiReview),
    }
}

/// What a role is called.
pub fn role_label(role: Role) -> &'static str {
    match role {
        Role::Plan => "Plan",
        Role::Work => "Work",
        Role::Review => "Review",
        Role::Delegate => "Delegate",
    }
}

/// The colour of a live mark.
pub fn role_pulse(role: Option<Role>) -> &'static str {
    match role {
        Some(Role::Plan) => "pulse c-planning",
        Some(Role::Review) => "pulse c-review",
        Some(Role::Work | Role::Delegate) | None => "pulse c-working",
    }
}

/// The mark of a type.
pub fn kind_mark(kind: Kind) -> AnyView {
    match kind {
        Kind::Task => icon14("t-task"),
        Kind::Bug => icon14("t-bug"),
        Kind::Project => icon14("t-project"),
    }
}

/// What a type is called.
pub fn kind_label(kind: Kind) -> &'static str {
    match kind {
        Kind::Task => "Task",
        Kind::Bug => "Bug",
        Kind::Project => "Project",
    }
}
