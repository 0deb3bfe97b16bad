//! Taking comments and needless white space out of a stylesheet. Nothing cleverer, so nothing can break.

use super::classes::without_comments;

pub(super) fn minify(sheet: &str) -> String {
    let mut out = String::with_capacity(sheet.len());
    let mut quote = None;
    let mut escaped = false;
    for c in without_comments(sheet).chars() {
        if let Some(open) = quote {
            out.push(c);
            if !escaped && c == open {
                quote = None;
            }
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' | '\'' => {
                quote = Some(c);
                out.push(c);
            }
            c if c.is_whitespace() => {
                if !out.ends_with([' ', '{', '}', ';', ',']) && !out.is_empty() {
                    out.push(' ');
                }
            }
            '{' | '}' | ';' | ',' => {
                if out.ends_with(' ') && !out.ends_with("\\ ") && !out.ends_with(": ") {
                    out.pop();
                }
                // The space of an empty value stays (`--x: ;`), and so does its semicolon.
                if c == '}' && out.ends_with(';') && !out.ends_with(": ;") {
                    out.pop();
                }
                if c != ';' || !out.ends_with([';', '{']) {
                    out.push(c);
                }
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::minify;

    #[test]
    fn only_what_means_nothing_goes() {
        let sheet = "/* x */\n.a , .b > c :hover {\n  margin: 0 auto ;\n  content: \"  { ;\";\n}\n@media (width >= 4px) { .d { x: y } }\n";
        assert_eq!(
            minify(sheet),
            ".a,.b > c :hover{margin: 0 auto;content: \"  { ;\"}@media (width >= 4px){.d{x: y}}"
        );
        assert_eq!(minify("*{--en-x: ;--y:1;} b{--z: ;}"), "*{--en-x: ;--y:1}b{--z: ;}");
    }
}
