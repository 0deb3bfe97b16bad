//! The diff, unified. The server has bounded and drawn it.

use leptos::prelude::*;

use super::Page;
use crate::api::objective::read_diff;
use crate::ui::data::{load, shown_or};
use crate::ui::parts::failed;

/// Reads and shows it; a new commit is read anew.
pub(crate) fn tab(page: Page) -> AnyView {
    let commit = Memo::new(move |_| page.data.with(|page| page.view.head_commit.clone()));
    let data = load(move || commit.get().unwrap_or_default(), move || read_diff(page.id));
    shown_or(
        data,
        |html: String| view! { <div inner_html=html></div> }.into_any(),
        |refusal| failed("The diff could not be read", refusal),
    )
}
