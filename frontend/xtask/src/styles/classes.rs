//! Reading class names out of Rust sources and out of stylesheets.

use std::collections::BTreeSet;

/// One string literal of a Rust file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) line: usize,
    pub(super) text: String,
    /// It stands in a `class` attribute, so each word of it is meant as a class.
    pub(super) is_attribute: bool,
}

/// Every string literal of a source file, and the names of `class:name=` switches.
pub(super) fn in_source(source: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut code = String::new();
    let mut in_list = false;
    let mut line = 1;
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (piece, literal) = next_piece(rest, first);
        match literal {
            Some(text) => {
                switches(&code, line, &mut found);
                let before: String = code.chars().filter(|c| !c.is_whitespace()).collect();
                in_list = before.ends_with("class=[")
                    || before.ends_with("class=(")
                    || before.ends_with("class=([")
                    || (in_list && before == ",");
                let is_attribute = in_list || before.ends_with("class=");
                // `class=("a", cond)` has one list of names, `class=(["a", "b"], cond)` several.
                in_list &= before.ends_with('[') || before == ",";
                found.push(Found { line, text, is_attribute });
                code.clear();
            }
            None if !piece.starts_with("//") && !piece.starts_with("/*") => code.push_str(piece),
            None => {}
        }
        line += piece.matches('\n').count();
        rest = &rest[piece.len()..];
    }
    switches(&code, line, &mut found);
    found
}

/// The next token that matters: a comment, a literal (with its text), or one character of code.
fn next_piece(rest: &str, first: char) -> (&str, Option<String>) {
    if rest.starts_with("//") {
        return (&rest[..rest.find('\n').unwrap_or(rest.len())], None);
    }
    if rest.starts_with("/*") {
        return (&rest[..rest.find("*/").map_or(rest.len(), |end| end + 2)], None);
    }
    if first == '\'' {
        return (char_literal(rest), None);
    }
    if first == '"' {
        let end = closing_quote(rest);
        return (&rest[..end], Some(rest[1..end.max(2) - 1].replace("\\n", " ").replace("\\\"", "\"")));
    }
    if let Some(hashes) = raw_string(rest) {
        let open = hashes + 2;
        let close = format!("\"{}", "#".repeat(hashes));
        let end = rest[open..].find(&close).map_or(rest.len(), |at| open + at);
        return (&rest[..(end + close.len()).min(rest.len())], Some(rest[open..end].to_owned()));
    }
    if first.is_alphanumeric() || first == '_' {
        // A whole word at once, so that the `r` of `for"` is not taken for a raw string.
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        return (&rest[..end], None);
    }
    (&rest[..first.len_utf8()], None)
}

/// `'x'`, `'\n'`, or only the tick of a lifetime.
fn char_literal(rest: &str) -> &str {
    let mut chars = rest.char_indices().skip(1);
    let Some((_, inner)) = chars.next() else { return rest };
    if inner == '\\' {
        let end = rest[3.min(rest.len())..].find('\'').map_or(rest.len(), |at| at + 4);
        return &rest[..end];
    }
    match chars.next() {
        Some((at, '\'')) => &rest[..=at],
        Some(_) | None => &rest[..1],
    }
}

fn closing_quote(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// How many `#` a raw string that starts here has.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

fn switches(code: &str, line: usize, found: &mut Vec<Found>) {
    for (at, _) in code.match_indices("class:") {
        let after = &code[at + "class:".len()..];
        let end = after.find(|c: char| !c.is_alphanumeric() && !"-_".contains(c)).unwrap_or(after.len());
        if end > 0 && after[end..].trim_start().starts_with('=') {
            let below = code[at..].matches('\n').count();
            found.push(Found { line: line - below, text: after[..end].to_owned(), is_attribute: true });
        }
    }
}

/// The class names that stand in a stylesheet's selectors.
pub(super) fn selectors(sheet: &str) -> BTreeSet<String> {
    let sheet = without_comments(sheet);
    let mut names = BTreeSet::new();
    for (at, _) in sheet.match_indices('.') {
        let mut name = String::new();
        let mut chars = sheet[at + 1..].chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => name.extend(chars.next()),
                c if c.is_alphanumeric() || "-_".contains(c) => name.push(c),
                _ => break,
            }
        }
        if name.starts_with(|c: char| c.is_alphabetic() || "-_".contains(c)) {
            names.insert(name);
        }
    }
    names
}

/// The sheet without `/* … */`.
pub(super) fn without_comments(sheet: &str) -> String {
    let mut plain = String::with_capacity(sheet.len());
    let mut rest = sheet;
    while let Some(start) = rest.find("/*") {
        plain.push_str(&rest[..start]);
        rest = rest[start..].find("*/").map_or("", |end| &rest[start + end + 2..]);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(source: &str) -> Vec<(usize, String)> {
        in_source(source).into_iter().filter(|f| f.is_attribute).map(|f| (f.line, f.text)).collect()
    }

    #[test]
    fn attributes_are_told_from_other_strings() {
        let source = r##"
            // class="comment"
            view! { <p class="a b" title="no" class=("c d", move || on.get() == "x")
                class:sel=move || true class:is-on = x>{'"'} "text"</p>
                <b class=(["e", "f"], g) class=move || if h == "i" { "j" } else { "k" } /> }
            fn f<'a>() -> &'a str { r#"class="raw""# }
        "##;
        let want: Vec<(usize, String)> =
            [(3, "a b"), (3, "c d"), (4, "sel"), (4, "is-on"), (5, "e"), (5, "f")]
                .map(|(l, t)| (l, t.into()))
                .into();
        assert_eq!(attributes(source), want);
        assert!(in_source(source).iter().any(|f| f.text == "j" && !f.is_attribute));
    }

    #[test]
    fn selectors_are_read_without_numbers_and_comments() {
        let names = selectors(".a.b-c:hover > .d_e{margin:.5em}/* .no */@media x{.md\\:f{}}");
        assert_eq!(names, ["a", "b-c", "d_e", "md:f"].map(String::from).into());
    }
}
