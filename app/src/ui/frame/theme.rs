//! The theme: light, dark or the system's, kept in the browser.

use leptos::prelude::*;

const THEME: &str = "opkit-theme";

/// system → light → dark → system.
pub(crate) fn next_theme() {
    let Some(root) = document().document_element() else { return };
    let next = match root.get_attribute("data-theme").as_deref() {
        None => Some("light"),
        Some("light") => Some("dark"),
        Some(_) => None,
    };
    let store = window().local_storage().ok().flatten();
    // A browser without storage keeps the choice until the next page.
    match next {
        Some(theme) => {
            root.set_attribute("data-theme", theme).ok();
            store.map(|store| store.set_item(THEME, theme));
        }
        None => {
            root.remove_attribute("data-theme").ok();
            store.map(|store| store.remove_item(THEME));
        }
    }
}

pub(super) fn restore_theme() {
    let saved =
        window().local_storage().ok().flatten().and_then(|store| store.get_item(THEME).ok().flatten());
    if let Some(theme) = saved.filter(|theme| theme == "light" || theme == "dark")
        && let Some(root) = document().document_element()
    {
        root.set_attribute("data-theme", &theme).ok();
    }
}
