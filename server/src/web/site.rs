//! The files of the site: inside the binary of a release, or in the folder that `OPKIT_SITE` names.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use axum::body::Body;
use axum::extract::{Path as UrlPath, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Door;

#[cfg(feature = "embed-site")]
#[derive(rust_embed::RustEmbed)]
#[folder = "../dist"]
struct Embedded;

/// Where the files come from and what their build is called.
pub(crate) struct Site {
    folder: Option<PathBuf>,
    build_id: String,
    /// Names of the files beside `pkg/`, such as icons; known at start, so that no other path is looked up.
    root_files: HashSet<String>,
}

impl Site {
    /// A folder wins over what is embedded. Without either, pages come without script and style.
    pub(crate) fn find(folder: Option<PathBuf>) -> anyhow::Result<Site> {
        if let Some(folder) = folder {
            return Site::in_folder(folder);
        }
        #[cfg(feature = "embed-site")]
        return Ok(Site::embedded());
        #[cfg(not(feature = "embed-site"))]
        {
            tracing::warn!("there is no site: set OPKIT_SITE to the folder that `cargo xtask build` made");
            Ok(Site { folder: None, build_id: "dev".into(), root_files: HashSet::new() })
        }
    }

    fn in_folder(folder: PathBuf) -> anyhow::Result<Site> {
        let what = || {
            format!("{} is not a site. Run `cargo xtask build` and name its dist folder", folder.display())
        };
        let build_id = std::fs::read_to_string(folder.join("build-id")).with_context(what)?.trim().to_owned();
        let mut root_files = HashSet::new();
        for entry in std::fs::read_dir(&folder).with_context(what)? {
            let entry = entry?;
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                root_files.insert(name);
            }
        }
        Ok(Site { folder: Some(folder), build_id, root_files: served(root_files) })
    }

    #[cfg(feature = "embed-site")]
    fn embedded() -> Site {
        let root_files = Embedded::iter().filter(|name| !name.contains('/')).map(Cow::into_owned).collect();
        Site {
            folder: None,
            build_id: env!("OPKIT_EMBEDDED_BUILD_ID").into(),
            root_files: served(root_files),
        }
    }

    /// The hash that names this build's folder.
    pub(crate) fn build_id(&self) -> &str {
        &self.build_id
    }

    /// For the page renderer, which looks for optional files there.
    pub(super) fn root(&self) -> String {
        self.folder.as_deref().unwrap_or(Path::new("site")).to_string_lossy().into_owned()
    }

    async fn read(&self, path: &str) -> Option<Cow<'static, [u8]>> {
        let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']);
        if !path.split('/').all(plain) {
            return None;
        }
        if let Some(folder) = &self.folder {
            return tokio::fs::read(folder.join(path)).await.ok().map(Cow::Owned);
        }
        #[cfg(feature = "embed-site")]
        return Embedded::get(path).map(|file| file.data);
        #[cfg(not(feature = "embed-site"))]
        None
    }

    /// The file, precompressed where that was done and the client takes it.
    async fn answer(&self, path: &str, request: &HeaderMap, cache: &'static str) -> Option<Response> {
        let packed = if takes_brotli(request) { self.read(&format!("{path}.br")).await } else { None };
        let encoded = packed.is_some();
        let bytes = match packed {
            Some(bytes) => bytes,
            None => self.read(path).await?,
        };
        let body = match bytes {
            Cow::Borrowed(bytes) => Body::from(bytes),
            Cow::Owned(bytes) => Body::from(bytes),
        };
        let mut response = body.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type(path));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if encoded {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        Some(response)
    }
}

fn served(mut names: HashSet<String>) -> HashSet<String> {
    names.retain(|name| name != "build-id" && !name.ends_with(".br") && !name.starts_with('.'));
    names
}

fn takes_brotli(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        parts.next() == Some("br")
            && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

fn content_type(path: &str) -> HeaderValue {
    let guess = match path.rsplit('.').next() {
        Some("webmanifest") => "application/manifest+json".to_owned(),
        Some("js") => "text/javascript; charset=utf-8".to_owned(),
        Some("css") => "text/css; charset=utf-8".to_owned(),
        _ => mime_guess::from_path(path).first_or_octet_stream().to_string(),
    };
    HeaderValue::from_str(&guess).unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// `GET /pkg/{build}/{*path}`: for ever cacheable; another build's files are gone and the page reloads.
pub(super) async fn bundle(
    State(door): State<Door>,
    UrlPath((build, path)): UrlPath<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let site = door.site();
    if build == site.build_id() && !path.ends_with(".br") {
        let file = format!("pkg/{build}/{path}");
        if let Some(response) = site.answer(&file, &headers, "public, max-age=31536000, immutable").await {
            return response;
        }
    }
    let mut response =
        (StatusCode::NOT_FOUND, "This file belongs to another build. Reload the page.").into_response();
    if let Ok(current) = HeaderValue::from_str(site.build_id()) {
        response.headers_mut().insert(HeaderName::from_static("x-opkit-build"), current);
    }
    response
}

/// Icons and manifest, before anybody asks who wants them.
pub(super) async fn root_files(State(door): State<Door>, request: Request, next: Next) -> Response {
    let name = request.uri().path().trim_start_matches('/');
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads
        && door.site().root_files.contains(name)
        && let Some(response) = door.site().answer(name, request.headers(), "public, max-age=3600").await
    {
        return response;
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn serves_only_what_lies_inside() {
        let folder = tempfile::tempdir().unwrap();
        let pkg = folder.path().join("pkg/abc");
        std::fs::create_dir_all(&pkg).unwrap();
        std::fs::write(folder.path().join("build-id"), "abc\n").unwrap();
        std::fs::write(folder.path().join("icon.svg"), "<svg/>").unwrap();
        std::fs::write(pkg.join("app.css"), "plain").unwrap();
        std::fs::write(pkg.join("app.css.br"), "packed").unwrap();
        let site = Site::find(Some(folder.path().to_owned())).unwrap();
        assert_eq!(site.build_id(), "abc");
        assert_eq!(site.root_files, HashSet::from(["icon.svg".to_owned()]));
        for outside in ["../x", "pkg/../build-id", "/etc/passwd", "pkg//app.css", ".build-id", ""] {
            assert!(site.read(outside).await.is_none(), "{outside}");
        }
        let mut headers = HeaderMap::new();
        let plain = site.answer("pkg/abc/app.css", &headers, "no-cache").await.unwrap();
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br;q=1"));
        let packed = site.answer("pkg/abc/app.css", &headers, "no-cache").await.unwrap();
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "br");
        assert_eq!(packed.headers()[header::CONTENT_TYPE], "text/css; charset=utf-8");
    }

    #[test]
    fn a_folder_without_build_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Site::find(Some(folder.path().to_owned())).err().unwrap();
        assert!(error.to_string().contains("cargo xtask build"));
    }
}
