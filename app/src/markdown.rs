//! Markdown of agents and people as HTML that cannot do anything: no raw HTML, no images, safe links only.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

/// The most that is rendered; the rest is cut with a note.
const MOST: usize = 200_000;

/// Renders a text. What comes out holds only tags that this module lets through.
pub(crate) fn html(text: &str) -> String {
    let mut end = text.len().min(MOST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut out = String::with_capacity(end + end / 2);
    let mut links = Vec::new();
    let events = Parser::new_ext(&text[..end], options).filter_map(|event| clean(event, &mut links));
    pulldown_cmark::html::push_html(&mut out, events);
    if end < text.len() {
        out.push_str("<p>The rest is cut here. The whole text is in the repository.</p>");
    }
    out
}

/// Lets an event through, changes it, or drops it. `links` remembers which open links were let through.
fn clean<'a>(event: Event<'a>, links: &mut Vec<bool>) -> Option<Event<'a>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::HtmlBlock | Tag::Image { .. }) | Event::End(TagEnd::HtmlBlock | TagEnd::Image) => {
            None
        }
        Event::Start(Tag::Link { dest_url, .. }) => {
            let safe = is_safe(&dest_url);
            links.push(safe);
            safe.then(|| {
                let mut tag =
                    String::from("<a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"");
                escape(&dest_url, &mut tag);
                tag.push_str("\">");
                Event::InlineHtml(CowStr::from(tag))
            })
        }
        Event::End(TagEnd::Link) => {
            links.pop().unwrap_or(false).then_some(Event::InlineHtml(CowStr::Borrowed("</a>")))
        }
        Event::Start(_)
        | Event::End(_)
        | Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::Rule
        | Event::TaskListMarker(_) => Some(event),
    }
}

/// Only links that open a page or a mail.
fn is_safe(url: &str) -> bool {
    let url = url.trim().to_ascii_lowercase();
    ["http://", "https://", "mailto:"].iter().any(|scheme| url.starts_with(scheme))
}

fn escape(text: &str, out: &mut String) {
    for c in text.trim().chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn text_of_agents_cannot_act() {
        let out = html(
            "one <script>x</script> <b onclick=x>b</b>\n\n[a](javascript:x) ![i](http://x/y.png)\n\n<img src=x>",
        );
        assert!(!out.contains("<script") && !out.contains("<b ") && !out.contains("<img"), "{out}");
        assert!(!out.contains("javascript:"), "{out}");
        assert!(out.contains("&lt;script&gt;"), "{out}");
    }

    #[test]
    fn safe_links_open_without_a_referrer() {
        let out = html("[ok](https://e.org/a?b=1&c=2)");
        assert!(out.contains("rel=\"noopener noreferrer nofollow\""), "{out}");
        assert!(out.contains("href=\"https://e.org/a?b=1&amp;c=2\""), "{out}");
    }
}
