//! Reading a page's data and drawing it. One resource type and one transition for all pages keep the browser's
//! bundle small: what differs between pages is a boxed function.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use leptos::prelude::*;
use leptos::server::codee::string::FromToStringCodec;
use serde::de::DeserializeOwned;

use super::parts::page_failed;
use crate::api::answer::settled;
use crate::api::{Answer, Refusal};

/// What the server answered, and answers anew.
pub(crate) type Data = Resource<Answer, FromToStringCodec>;

type Call = Pin<Box<dyn Future<Output = Result<Answer, ServerFnError>> + Send>>;
type Draw = Arc<dyn Fn(&Answer) -> AnyView + Send + Sync>;

/// Reads now, and again whenever `key` changes.
pub(crate) fn load<Fut>(
    key: impl Fn() -> String + Send + Sync + 'static,
    call: impl Fn() -> Fut + Send + Sync + 'static,
) -> Data
where
    Fut: Future<Output = Result<Answer, ServerFnError>> + Send + 'static,
{
    load_boxed(Box::new(key), Box::new(move || Box::pin(call())))
}

/// Reads once; `refetch` reads anew.
pub(crate) fn load_once<Fut>(call: fn() -> Fut) -> Data
where
    Fut: Future<Output = Result<Answer, ServerFnError>> + Send + 'static,
{
    load(String::new, call)
}

fn load_boxed(key: Box<dyn Fn() -> String + Send + Sync>, call: Box<dyn Fn() -> Call + Send + Sync>) -> Data {
    Resource::new_str_blocking(key, move |_| {
        let call = call();
        async move { settled(call.await) }
    })
}

/// Draws a page's view; without one `head` stands above the reason.
pub(crate) fn shown<T: DeserializeOwned>(
    data: Data,
    head: &'static str,
    draw: impl Fn(T) -> AnyView + Send + Sync + 'static,
) -> AnyView {
    shown_or(data, draw, move |refusal| page_failed(head, refusal))
}

/// Draws a page's view, or what stands there without one.
pub(crate) fn shown_or<T: DeserializeOwned>(
    data: Data,
    draw: impl Fn(T) -> AnyView + Send + Sync + 'static,
    without: impl Fn(&Refusal) -> AnyView + Send + Sync + 'static,
) -> AnyView {
    let draw = Arc::new(move |answer: &Answer| match answer.open::<T>() {
        Ok(view) => draw(view),
        Err(refusal) => without(&refusal),
    });
    transition(data, draw, || view! { <div class="skeleton"></div> }.into_any())
}

/// The one place where a page waits for its data.
pub(crate) fn transition(data: Data, draw: Draw, fallback: fn() -> AnyView) -> AnyView {
    view! {
        <Transition fallback=fallback>
            {move || {
                let draw = draw.clone();
                Suspend::new(async move { draw(&data.await) })
            }}
        </Transition>
    }
    .into_any()
}
