//! One element a line. Text only ever becomes text nodes, so that no output can act on the viewer.

use leptos::prelude::document;
use opkit_domain::screen::{ADD, BOLD, DEL, DIM, ITALIC, Line, Span, UNDERLINE};
use web_sys::{Element, HtmlElement};

/// The text of a line.
pub(crate) fn plain(line: &Line) -> String {
    line.iter().map(|span| span.text.as_str()).collect()
}

/// Removes every line from this index on.
pub(crate) fn cut(list: &HtmlElement, from: usize) {
    let mut count = list.child_element_count() as usize;
    while count > from {
        if let Some(last) = list.last_element_child() {
            last.remove();
        }
        count -= 1;
    }
}

/// Removes the first lines.
pub(crate) fn drop_first(list: &HtmlElement, count: usize) {
    for _ in 0..count {
        if let Some(first) = list.first_element_child() {
            first.remove();
        }
    }
}

/// Adds a line at the end.
pub(crate) fn append(list: &HtmlElement, number: u64, line: &Line, query: &str) {
    if let Some(row) = row(number, line, query) {
        list.append_child(&row).ok();
    }
}

/// Adds lines at the beginning.
pub(crate) fn prepend(list: &HtmlElement, first: u64, lines: &[Line], query: &str) {
    let before = list.first_child();
    for (at, line) in lines.iter().enumerate() {
        if let Some(row) = row(first + at as u64, line, query) {
            list.insert_before(&row, before.as_ref()).ok();
        }
    }
}

/// Draws a line anew.
pub(crate) fn again(list: &HtmlElement, at: usize, line: &Line, query: &str) {
    let Some(row) = u32::try_from(at).ok().and_then(|at| list.children().item(at)) else { return };
    row.set_text_content(None);
    fill(&row, line, query);
}

fn row(number: u64, line: &Line, query: &str) -> Option<Element> {
    let row = document().create_element("div").ok()?;
    row.set_attribute("data-line", &number.to_string()).ok();
    let ground = line.iter().fold(0, |flags, span| flags | span.style.flags);
    let class = if ground & ADD != 0 {
        "tl-row add"
    } else if ground & DEL != 0 {
        "tl-row del"
    } else {
        "tl-row"
    };
    row.set_class_name(class);
    fill(&row, line, query);
    Some(row)
}

fn fill(row: &Element, line: &Line, query: &str) {
    if let [only] = line.as_slice()
        && class_of(only).is_empty()
        && query.is_empty()
    {
        row.set_text_content(Some(&only.text));
        return;
    }
    for span in line {
        let class = class_of(span);
        let mut rest = span.text.as_str();
        while let Some((before, hit, after)) = split(rest, query) {
            piece(row, &class, before);
            piece(row, "hit", hit);
            rest = after;
        }
        piece(row, &class, rest);
    }
}

/// Cuts a text at the next match, without regard to case.
fn split<'a>(text: &'a str, query: &str) -> Option<(&'a str, &'a str, &'a str)> {
    if query.is_empty() {
        return None;
    }
    let at = text.to_ascii_lowercase().find(&query.to_ascii_lowercase())?;
    let end = at + query.len();
    Some((text.get(..at)?, text.get(at..end)?, text.get(end..)?))
}

fn piece(row: &Element, class: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    if let Ok(span) = document().create_element("span") {
        if !class.is_empty() {
            span.set_class_name(class);
        }
        span.set_text_content(Some(text));
        row.append_child(&span).ok();
    }
}

fn class_of(span: &Span) -> String {
    let colour = match span.style.fg {
        1 | 9 => "d",
        2 | 10 => "r",
        3 | 11 => "g",
        4 | 12 => "y",
        5 | 13 => "u",
        6 | 14 => "m",
        7 | 15 => "c",
        _ => "",
    };
    let flag = |bit: u8, class: &'static str| if span.style.flags & bit != 0 { class } else { "" };
    [colour, flag(BOLD, "b"), flag(DIM, "d"), flag(ITALIC, "it"), flag(UNDERLINE, "un")]
        .iter()
        .filter(|class| !class.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(" ")
}
