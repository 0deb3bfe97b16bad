//! What was kept of the worktree when sessions ended, and bringing it back.

use leptos::prelude::*;
use leptos::task::spawn_local;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::view::{DiffFile, KeptView};

use super::Page;
use crate::api::objective::{read_kept, restore_files};
use crate::format;
use crate::ui::clock::age;
use crate::ui::data::{load, shown_or};
use crate::ui::dialog::Confirm;
use crate::ui::icons::icon14;
use crate::ui::parts::{awake, failed};
use crate::ui::toast::{Toasts, use_toasts};

/// What the buttons need.
#[derive(Clone, Copy)]
struct Desk {
    id: ObjectiveId,
    toasts: Toasts,
    busy: RwSignal<bool>,
    /// The one that is asked about.
    asked: RwSignal<i64>,
    asking: RwSignal<bool>,
    read: RwSignal<u32>,
}

/// The tab.
pub(crate) fn tab(page: Page) -> AnyView {
    let id = page.id;
    let desk = Desk {
        id,
        toasts: use_toasts(),
        busy: RwSignal::new(false),
        asked: RwSignal::new(0),
        asking: RwSignal::new(false),
        read: RwSignal::new(0),
    };
    let data = load(move || desk.read.get().to_string(), move || read_kept(id));
    let run = move || {
        let kept = desk.asked.get_untracked();
        desk.busy.set(true);
        spawn_local(async move {
            match restore_files(id, kept).await {
                Ok(message) => desk.toasts.good(message),
                Err(refusal) => desk.toasts.failed("Nothing was brought back", &refusal),
            }
            desk.busy.try_set(false);
            desk.read.try_update(|read| *read += 1);
            page.refresh();
        });
    };
    let text = view! {
        <p>
            "The objective's next session finds it on a branch of its own and is told so. Nothing in the worktree is overwritten, and no other session can read it."
        </p>
    }
    .into_any();
    view! {
        {shown_or(
            data,
            move |list: Vec<KeptView>| listed(desk, &list),
            |refusal| failed("What was kept could not be read", refusal),
        )}
        <Confirm
            open=desk.asking
            head=Signal::derive(move || format!("Bring rescue/{} back?", desk.asked.get()))
            text
            keep="Leave it"
            calm=true
            act=Signal::derive(move || format!("Bring rescue/{} back", desk.asked.get()))
            run
        />
    }
    .into_any()
}

fn listed(desk: Desk, list: &[KeptView]) -> AnyView {
    if list.is_empty() {
        return view! {
            <div class="empty">
                <h2>"Nothing was kept"</h2>
                <p>"What a session leaves uncommitted is kept when it ends, and can be brought back from here."</p>
            </div>
        }
        .into_any();
    }
    list.iter().map(|kept| one(desk, kept)).collect_view().into_any()
}

fn one(desk: Desk, kept: &KeptView) -> AnyView {
    let id = kept.id;
    let session = kept.session.as_ref().map(|session| {
        let short = session.short().to_owned();
        view! {
            " of session "
            <a class="link mono" href=format!("/session/{session}")>
                {short}
            </a>
        }
    });
    let files = kept.files.files.iter().map(file).collect_view();
    let notes = kept.files.left_out.iter().chain(&kept.notes).cloned();
    let notes = notes.map(|text| view! { <p class="meta">{text}</p> }).collect_view();
    let until = (!kept.dropped).then(|| {
        let day = format::exact(kept.until).chars().take(10).collect::<String>();
        view! { <p class="meta kept-until">{format!("It stays until {day}.")}</p> }
    });
    view! {
        <section class="panel" aria-label=format!("Kept {id}") data-kept=id.to_string()>
            <header class="panel-head">
                <span class="mono">{format!("rescue/{id}")}</span>
                <span class="meta">
                    {format::count(kept.files.files.len() as u64, "file")} {session} ", " {age("age", kept.at)}
                </span>
                <span class="sp"></span>
                {actions(desk, kept)}
            </header>
            <div class="panel-body">
                <ul class="mono">{files}</ul>
                {notes}
                {until}
            </div>
        </section>
    }
    .into_any()
}

fn file(file: &DiffFile) -> AnyView {
    view! {
        <li class="break">
            {file.path.clone()} " "
            <span class="meta">{format!("{}, +{} \u{2212}{}", file.change, file.added, file.removed)}</span>
        </li>
    }
    .into_any()
}

fn actions(desk: Desk, kept: &KeptView) -> AnyView {
    let id = kept.id;
    if kept.dropped {
        return view! { <span class="meta">"Its time was over, and it was dropped"</span> }.into_any();
    }
    let awake = awake();
    let restore = if kept.restored {
        view! { <span class="meta">"Brought back"</span> }.into_any()
    } else {
        view! {
            <button
                class="btn btn-s"
                type="button"
                data-restore=""
                disabled=move || desk.busy.get() || !awake.get()
                on:click=move |_| {
                    desk.asked.set(id);
                    desk.asking.set(true);
                }
            >
                {icon14("undo")}
                "Restore"
            </button>
        }
        .into_any()
    };
    view! {
        <a
            class="btn btn-quiet btn-s"
            rel="external"
            download=""
            href=format!("/api/v1/objectives/{}/kept/patch?kept={id}", desk.id)
        >
            "Download as patch"
        </a>
        {restore}
    }
    .into_any()
}
