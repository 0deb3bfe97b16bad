//! The diff as HTML. It is read, not used, so it is drawn on the server and sent as text.

use std::fmt::Write;

use opkit_domain::view::{DiffFile, DiffHunk, DiffView};

use crate::format;
use crate::ui::icons::SVG_FILE;

/// Draws it; everything that comes from a repository is escaped.
pub(crate) fn html(view: &DiffView) -> String {
    if view.files.is_empty() {
        return "<div class=\"empty\"><h2>Nothing was delivered yet</h2>\
                <p>Once a session delivers a commit, what it changed stands here.</p></div>"
            .into();
    }
    let mut out = format!(
        "<section class=\"panel\" aria-label=\"Diff\" data-diff=\"\"><header class=\"panel-head\">Diff \
         <span class=\"meta\">{}</span><span class=\"num t-done diff-sum\">+{}</span>\
         <span class=\"num t-failed diff-sum\">\u{2212}{}</span></header>",
        format::count(view.files.len() as u64, "file"),
        format::number(u64::from(view.added)),
        format::number(u64::from(view.removed)),
    );
    for one in &view.files {
        file(&mut out, one);
    }
    if let Some(text) = &view.left_out {
        let text = escape(text);
        put(
            &mut out,
            format_args!("<p class=\"panel-body meta\">Left out here: {text}. The branch has it all.</p>"),
        );
    }
    out.push_str("</section>");
    out
}

fn file(out: &mut String, file: &DiffFile) {
    let name = match &file.old_path {
        Some(old) if *old != file.path => format!("{old} \u{2192} {}", file.path),
        Some(_) | None => file.path.clone(),
    };
    let name = escape(&name);
    let change = if file.change == "modified" { String::new() } else { escape(&file.change) };
    put(
        out,
        format_args!(
            "<div class=\"diff\"><div class=\"diff-file\">{SVG_FILE}<span class=\"trunc\" title=\"{name}\">{name}</span>\
             <span class=\"meta\">{change}</span><span class=\"sp\"></span><span class=\"t-done\">+{}</span>\
             <span class=\"t-failed\">\u{2212}{}</span></div>",
            file.added, file.removed,
        ),
    );
    if let Some(note) = &file.note {
        put(out, format_args!("<p class=\"diff-note\">{}</p>", escape(note)));
    }
    for one in &file.hunks {
        hunk(out, one);
    }
    out.push_str("</div>");
}

fn hunk(out: &mut String, hunk: &DiffHunk) {
    put(out, format_args!("<div class=\"diff-hunk trunc\">{}</div>", escape(&hunk.head)));
    let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
    for line in &hunk.lines {
        let (class, mark) = match line.mark {
            '+' => ("diff-row add", "+"),
            '-' => ("diff-row del", "\u{2212}"),
            _ => ("diff-row", " "),
        };
        put(
            out,
            format_args!(
                "<div class=\"{class}\"><span>{}</span><span>{}</span><span>{mark}</span><span>{}</span></div>",
                number(line.old),
                number(line.new),
                escape(&line.text),
            ),
        );
    }
}

fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    // A String takes everything.
    out.write_fmt(what).ok();
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use opkit_domain::view::DiffLine;

    #[test]
    fn nothing_of_a_repository_becomes_markup() {
        let evil = "<script>alert('x')</script>\"&";
        let line = DiffLine { mark: '+', old: None, new: Some(1), text: evil.into() };
        let view = DiffView {
            files: vec![DiffFile {
                path: evil.into(),
                old_path: Some(format!("old{evil}")),
                change: evil.into(),
                added: 1,
                removed: 0,
                note: Some(evil.into()),
                hunks: vec![DiffHunk { head: evil.into(), lines: vec![line] }],
            }],
            added: 1,
            removed: 0,
            left_out: Some(evil.into()),
        };
        let html = html(&view);
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains("\"&\""), "{html}");
        assert_eq!(html.matches("&lt;script&gt;").count(), 9);
    }
}
