//! The browser's entry: hydrates the app and nothing else.

use wasm_bindgen::prelude::wasm_bindgen;

/// Called by the page's hydration script once the module is there.
#[wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    leptos::mount::hydrate_body(opkit_app::App);
    if let Some(performance) = web_sys::window().and_then(|w| w.performance()) {
        // Browser tests wait for this mark. A browser without marks still has a working page.
        performance.mark("hydrate-end").ok();
    }
}
