//! The diff, unified. The server has bounded it.

use leptos::prelude::*;
use opkit_domain::view::{DiffFile, DiffHunk, DiffLine, DiffView};

use super::Page;
use crate::api::objective::diff;
use crate::format;
use crate::ui::icons::icon14;
use crate::ui::parts::failed;

/// Reads and draws it; a new commit is read anew.
pub(crate) fn tab(page: Page) -> AnyView {
    let commit = Memo::new(move |_| page.data.with(|page| page.view.head_commit.clone()));
    let data = Resource::new_blocking(move || commit.get(), move |_| diff(page.id));
    view! {
        <Transition fallback=|| view! { <div class="skeleton"></div> }>
            {move || Suspend::new(async move {
                match data.await {
                    Ok(view) if view.files.is_empty() => nothing(),
                    Ok(view) => draw(&view),
                    Err(error) => failed("The diff could not be read", &error),
                }
            })}
        </Transition>
    }
    .into_any()
}

fn nothing() -> AnyView {
    view! {
        <div class="empty">
            <h2>"Nothing was delivered yet"</h2>
            <p>"Once a session delivers a commit, what it changed stands here."</p>
        </div>
    }
    .into_any()
}

fn draw(view: &DiffView) -> AnyView {
    view! {
        <section class="panel" aria-label="Diff" data-diff="">
            <header class="panel-head">
                "Diff" <span class="meta">{format::count(view.files.len() as u64, "file")}</span>
                <span class="num t-done diff-sum">{format!("+{}", format::number(u64::from(view.added)))}</span>
                <span class="num t-failed diff-sum">{format!("−{}", format::number(u64::from(view.removed)))}</span>
            </header>
            {view.files.iter().map(file).collect_view()}
            {view
                .left_out
                .as_ref()
                .map(|text| view! { <p class="panel-body meta">{format!("Left out here: {text}. The branch has it all.")}</p> })}
        </section>
    }
    .into_any()
}

fn file(file: &DiffFile) -> AnyView {
    let name = match &file.old_path {
        Some(old) if *old != file.path => format!("{old} → {}", file.path),
        Some(_) | None => file.path.clone(),
    };
    view! {
        <div class="diff">
            <div class="diff-file">
                {icon14("file")}
                <span class="trunc" title=name.clone()>
                    {name.clone()}
                </span>
                <span class="meta">{(file.change != "modified").then(|| file.change.clone())}</span>
                <span class="sp"></span>
                <span class="t-done">{format!("+{}", file.added)}</span>
                <span class="t-failed">{format!("−{}", file.removed)}</span>
            </div>
            {file.note.as_ref().map(|note| view! { <p class="diff-note">{note.clone()}</p> })}
            {file.hunks.iter().map(hunk).collect_view()}
        </div>
    }
    .into_any()
}

fn hunk(hunk: &DiffHunk) -> AnyView {
    view! {
        <div class="diff-hunk trunc">{hunk.head.clone()}</div>
        {hunk.lines.iter().map(line).collect_view()}
    }
    .into_any()
}

fn line(line: &DiffLine) -> AnyView {
    let class = match line.mark {
        '+' => "diff-row add",
        '-' => "diff-row del",
        _ => "diff-row",
    };
    let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
    let mark = if line.mark == '-' { '−' } else { line.mark };
    view! {
        <div class=class>
            <span>{number(line.old)}</span>
            <span>{number(line.new)}</span>
            <span>{mark.to_string()}</span>
            <span>{line.text.clone()}</span>
        </div>
    }
    .into_any()
}
